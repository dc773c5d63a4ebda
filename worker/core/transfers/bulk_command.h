// Commands of the agent core for bulk bytes: memory of the store, and bytes read from and offered
// to other agents. Alternatives of Command in worker_command.h. Plain structs.
// Thread: any. Units: bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::worker {

// `writer`: the process that writes into the slab, or this agent for objects that it pulls.
struct CreateSlab {
  SlabId slab;
  std::uint64_t size_bytes = 0;
  ProcessId writer;
  MOBULA_FIELDS(slab, size_bytes, writer);
  friend bool operator==(const CreateSlab&, const CreateSlab&) = default;
};

// Closes the slab, and unmaps it if the agent has mapped it.
struct DropSlab {
  SlabId slab;
  MOBULA_FIELDS(slab);
  friend bool operator==(const DropSlab&, const DropSlab&) = default;
};

// Reads one chunk of an object or a program file from the bulk server of a peer to its destination.
// ChunkFetched reports the end.
struct FetchBulk {
  std::uint64_t chunk = 0;
  AgentAddress from;
  std::string token;
  std::string key;          // empty: unencrypted
  std::uint64_t offer = 0;  // number of the offer at the peer
  std::uint64_t pull = 0;
  std::uint64_t offset = 0;  // bytes from the start of the object or file
  std::uint64_t size_bytes = 0;
  SlabId slab;  // empty: the destination is the file of the pull
  std::uint64_t slab_offset = 0;
  MOBULA_FIELDS(chunk, from, token, key, offer, pull, offset, size_bytes, slab, slab_offset);
  friend bool operator==(const FetchBulk&, const FetchBulk&) = default;
};

// Cancels a FetchBulk. ChunkFetched still follows, and no byte is written after it.
struct CancelBulk {
  std::uint64_t chunk = 0;
  MOBULA_FIELDS(chunk);
  friend bool operator==(const CancelBulk&, const CancelBulk&) = default;
};

// Creates the file into which a program file is pulled.
struct StartFilePull {
  std::uint64_t pull = 0;
  Hash128 file;
  std::uint64_t size_bytes = 0;
  MOBULA_FIELDS(pull, file, size_bytes);
  friend bool operator==(const StartFilePull&, const StartFilePull&) = default;
};

// Checks the complete program file and adds it to the program store under its hash. PullFinished
// reports the result.
struct FinishFilePull {
  std::uint64_t pull = 0;
  MOBULA_FIELDS(pull);
  friend bool operator==(const FinishFilePull&, const FinishFilePull&) = default;
};

// Removes the file of a pull that no slot needs any longer. The pull may have finished.
struct DropFilePull {
  std::uint64_t pull = 0;
  MOBULA_FIELDS(pull);
  friend bool operator==(const DropFilePull&, const DropFilePull&) = default;
};

// Lets one peer read these bytes, in chunks and any number of times, until WithdrawBulk.
// BulkOffered is the reply. `plain`: unencrypted, for a trusted fabric.
struct OfferObject {
  std::uint64_t offer = 0;
  ProcessId reader;  // incarnation of the peer agent
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  bool plain = false;
  MOBULA_FIELDS(offer, reader, slab, offset, size_bytes, plain);
  friend bool operator==(const OfferObject&, const OfferObject&) = default;
};

struct OfferFile {
  std::uint64_t offer = 0;
  ProcessId reader;
  Hash128 file;
  bool plain = false;
  MOBULA_FIELDS(offer, reader, file, plain);
  friend bool operator==(const OfferFile&, const OfferFile&) = default;
};

// Rejects further reads of the offer. BulkServed follows when no read is in progress.
struct WithdrawBulk {
  std::uint64_t offer = 0;
  MOBULA_FIELDS(offer);
  friend bool operator==(const WithdrawBulk&, const WithdrawBulk&) = default;
};

}  // namespace mobula::internal::worker
