// C interface of transport plugins: libraries that carry bytes of tensors between two processes.
// MOBULA_TRANSPORT_PLUGINS names shared objects, separated by colons, that each process opens at
// start.
// Thread: one thread calls all functions of a carrier, from create() to destroy().
// Errors: an exception that leaves a function ends the carrier and all its transfers.
// Not: access rules, chunks, cancellation, timeouts, encryption. Mobula builds transfers from
// messages, and uses plugins only between processes that trust the fabric.
#ifndef MOBULA_TRANSPORT_PLUGIN_H
#define MOBULA_TRANSPORT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. It only grows: a host of version N opens plugins of version N. */
#define MOBULA_TRANSPORT_PLUGIN_VERSION 1u
/* Smallest value that max_message_bytes may have, in bytes. */
#define MOBULA_TRANSPORT_LEAST_MESSAGE (512u * 1024u)

/* State of the plugin in one process, defined by the plugin. */
typedef struct mobula_carrier mobula_carrier;

/* A part of a message. */
typedef struct mobula_carrier_bytes {
  const void* bytes; /* start of the part */
  size_t size;       /* bytes */
} mobula_carrier_bytes;

/* Callbacks of the host, valid until destroy() returns. A carrier calls them only from within
 * poll(), on the same thread. They may call connect(), send(), and drop(). */
typedef struct mobula_carrier_host {
  uint32_t version; /* MOBULA_TRANSPORT_PLUGIN_VERSION of the host */
  void* host;       /* first argument of the callbacks */
  /* Delivers a complete message. The host copies the bytes before it returns. An unknown link was
   * connected by the other end. */
  void (*on_message)(void* host, uint64_t link, const void* bytes, size_t size);
  /* Reports that the link is unusable, with a human-readable reason. Not called for dropped
   * links. */
  void (*on_broken)(void* host, uint64_t link, const char* why);
} mobula_carrier_host;

/* The functions of a plugin. Only destroy() may block. Messages are delivered reliably and in any
 * order. A plugin never uses memory of users: it copies all bytes that it receives from the
 * host. */
typedef struct mobula_transport_plugin {
  uint32_t version;           /* MOBULA_TRANSPORT_PLUGIN_VERSION of the plugin */
  uint32_t size;              /* bytes of this struct as the plugin was compiled */
  const char* name;           /* name of the transport: 1 to 24 of a-z, 0-9, and _ */
  uint64_t max_message_bytes; /* size limit of one message */

  /* Opens the library. `listen` is the host's own address without a port. On failure, returns NULL
   * and writes a reason of at most why_size bytes, with its terminating zero, to `why`. */
  mobula_carrier* (*create)(const mobula_carrier_host* host, const char* listen, char* why,
                            size_t why_size);
  /* Closes all links and frees the carrier within 10 seconds, in any state of peers and
   * libraries. */
  void (*destroy)(mobula_carrier* carrier);
  /* Returns a file descriptor that is readable when poll() has work. It is constant, and the
   * carrier owns it. */
  int (*descriptor)(mobula_carrier* carrier);
  /* Makes progress and calls the host back. Nonzero: the host calls again immediately. The host
   * also calls it periodically, so that the plugin can check timeouts. */
  int (*poll)(mobula_carrier* carrier);
  /* Writes the address that other processes pass to connect(), up to `room` bytes, and returns its
   * full size, at most 2048 bytes. */
  size_t (*endpoint)(mobula_carrier* carrier, void* to, size_t room);
  /* Creates a link to another process, usable immediately. Returns its number, which is nonzero and
   * was not used before, or 0 with a reason. A link to a process that does not respond breaks
   * later. */
  uint64_t (*connect)(mobula_carrier* carrier, const void* endpoint, size_t size, char* why,
                      size_t why_size);
  /* Sends one message that consists of all `parts` in order, at most max_message_bytes; copies
   * them. Returns 0, or nonzero if the link cannot accept it; the host then drops the link. A link
   * queues 64 messages. A link that has messages and sends nothing for 10 seconds breaks. */
  int (*send)(mobula_carrier* carrier, uint64_t link, const mobula_carrier_bytes* parts,
              size_t count);
  /* Closes the link and discards its messages without a callback. Unknown links are ignored. */
  void (*drop)(mobula_carrier* carrier, uint64_t link);
} mobula_transport_plugin;

/* Name of the one function that a plugin exports. */
#define MOBULA_TRANSPORT_PLUGIN_ENTRY "mobula_open_transport_plugin"
/* Returns the plugin's table, which stays valid until the process exits. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const mobula_transport_plugin*
mobula_open_transport_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
