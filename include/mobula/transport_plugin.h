/* How bytes of tensors may travel by a library that Mobula does not know. A plug-in is a shared object
 * that a process opens when it starts, named in MOBULA_TRANSPORT_PLUGINS (paths, with colons between).
 * It carries messages between two processes, reliably and in any order; Mobula makes transfers of them:
 * who may read what, chunks, cancelling, limits of time. A plug-in never sees memory of users: what it
 * is given it copies, what it gives is copied, so whatever its library still does with its own buffers
 * after a failure hurts nobody. Its bytes go plain as far as Mobula knows, so it is used between
 * processes that trust the fabric, and refused elsewhere.
 *
 * The interface is plain C and only grows: a host that knows version N opens plug-ins of version N.
 * One thread calls all the functions of a carrier, create() and destroy() among them. None but
 * destroy() blocks. Callbacks come on that thread, from within poll() alone, and may call connect(),
 * send() and drop(). An exception that leaves a function ends the carrier, and so all its transfers.
 */
#ifndef MOBULA_TRANSPORT_PLUGIN_H
#define MOBULA_TRANSPORT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOBULA_TRANSPORT_PLUGIN_VERSION 1u
/* Of a message, at least: max_message_bytes may be more. */
#define MOBULA_TRANSPORT_LEAST_MESSAGE (512u * 1024u)

/* The plug-in's own: what one process has open. */
typedef struct mobula_carrier mobula_carrier;

typedef struct mobula_carrier_bytes {
  const void* bytes;
  size_t size;
} mobula_carrier_bytes;

/* What the host offers to a carrier; valid until destroy() returns. */
typedef struct mobula_carrier_host {
  uint32_t version;
  void* host;
  /* A message that has arrived whole. Its bytes may be gone when this returns. A link that the host
   * has not seen before was made by the other end. */
  void (*on_message)(void* host, uint64_t link, const void* bytes, size_t size);
  /* The link is of no more use, and why, in words for people. Not called for what was dropped. */
  void (*on_broken)(void* host, uint64_t link, const char* why);
} mobula_carrier_host;

typedef struct mobula_transport_plugin {
  uint32_t version; /* MOBULA_TRANSPORT_PLUGIN_VERSION */
  uint32_t size;    /* of this struct, as the plug-in knows it */
  const char* name; /* 1 to 24 of a-z, 0-9 and _; what users write */
  uint64_t max_message_bytes;

  /* Opens the library. `listen` is the host's own address, without a port. NULL with a reason in
   * `why`, of at most why_size bytes with its zero. */
  mobula_carrier* (*create)(const mobula_carrier_host* host, const char* listen, char* why,
                            size_t why_size);
  /* Ends all links; within ten seconds, whatever peers and libraries do. */
  void (*destroy)(mobula_carrier* carrier);
  /* Readable when poll() is wanted. The same as long as the carrier lives, which owns it. */
  int (*descriptor)(mobula_carrier* carrier);
  /* Does what is to be done, and tells the host of it. Not 0: call again at once. Is also called
   * every so often without need, for limits of time. */
  int (*poll)(mobula_carrier* carrier);
  /* What other processes connect() to: writes up to `room` bytes, and returns how many it has, at
   * most 2048. */
  size_t (*endpoint)(mobula_carrier* carrier, void* to, size_t room);
  /* A link to another process, to be used at once; its number, never 0 nor used before, or 0 with a
   * reason. A process that is not there or does not answer breaks the link later. */
  uint64_t (*connect)(mobula_carrier* carrier, const void* endpoint, size_t size, char* why,
                      size_t why_size);
  /* Sends one message of all `parts` in their order, of max_message_bytes at most; they are copied. 0,
   * or not when the link cannot take it; the host then drops the link. A link holds 64 messages that
   * wait; one that sends nothing for ten seconds although it should breaks. */
  int (*send)(mobula_carrier* carrier, uint64_t link, const mobula_carrier_bytes* parts,
              size_t count);
  /* Ends the link without a word to the host, whatever is on its way. Unknown links are none. */
  void (*drop)(mobula_carrier* carrier, uint64_t link);
} mobula_transport_plugin;

/* The one function that a plug-in exports, by this name. Its table lives as long as the program. */
#define MOBULA_TRANSPORT_PLUGIN_ENTRY "mobula_open_transport_plugin"
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const mobula_transport_plugin* mobula_open_transport_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
