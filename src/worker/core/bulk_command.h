// Of what the agent's core asks of its shell (worker_command.h): memory of the store, and bytes to
// and from peers. Plain structs.
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "protocol/agent_control.h"

namespace mobula::internal::worker {

// `writer`: the process that will write it, or this agent itself for what it pulls.
struct CreateSlab {
  SlabId slab;
  std::uint64_t size_bytes = 0;
  ProcessId writer;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &CreateSlab::slab), field("size_bytes", &CreateSlab::size_bytes),
                 field("writer", &CreateSlab::writer));
  }
  friend bool operator==(const CreateSlab&, const CreateSlab&) = default;
};

// Close it, and unmap it where the agent has it mapped.
struct DropSlab {
  SlabId slab;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slab", &DropSlab::slab));
  }
  friend bool operator==(const DropSlab&, const DropSlab&) = default;
};

// Read a part of an object's, or a program file's, bytes from a peer's bulk server to where it
// belongs. Answered by ChunkFetched.
struct FetchBulk {
  std::uint64_t chunk = 0;
  AgentAddress from;
  std::string token;
  std::string key;          // empty: plain
  std::uint64_t offer = 0;  // the peer's
  std::uint64_t pull = 0;
  std::uint64_t offset = 0;  // within the object or file
  std::uint64_t size_bytes = 0;
  SlabId slab;  // empty: into the file of the pull
  std::uint64_t slab_offset = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("chunk", &FetchBulk::chunk), field("from", &FetchBulk::from),
                 field("token", &FetchBulk::token), field("key", &FetchBulk::key),
                 field("offer", &FetchBulk::offer), field("pull", &FetchBulk::pull),
                 field("offset", &FetchBulk::offset), field("size_bytes", &FetchBulk::size_bytes),
                 field("slab", &FetchBulk::slab), field("slab_offset", &FetchBulk::slab_offset));
  }
  friend bool operator==(const FetchBulk&, const FetchBulk&) = default;
};

// Nothing more of it is written once ChunkFetched says so, which still follows.
struct CancelBulk {
  std::uint64_t chunk = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("chunk", &CancelBulk::chunk));
  }
  friend bool operator==(const CancelBulk&, const CancelBulk&) = default;
};

// Make room for a program file that is going to be pulled.
struct StartFilePull {
  std::uint64_t pull = 0;
  Hash128 file;
  std::uint64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &StartFilePull::pull), field("file", &StartFilePull::file),
                 field("size_bytes", &StartFilePull::size_bytes));
  }
  friend bool operator==(const StartFilePull&, const StartFilePull&) = default;
};

// All of it is there: check it, and take it into the program store under its hash. Answered by
// PullFinished.
struct FinishFilePull {
  std::uint64_t pull = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &FinishFilePull::pull));
  }
  friend bool operator==(const FinishFilePull&, const FinishFilePull&) = default;
};

// Nobody needs its room any more; it may have been finished.
struct DropFilePull {
  std::uint64_t pull = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &DropFilePull::pull));
  }
  friend bool operator==(const DropFilePull&, const DropFilePull&) = default;
};

// Let one peer read these bytes, in parts and as often as it asks, until WithdrawBulk. Answered by
// BulkOffered. `plain`: not sealed, for a trusted fabric.
struct OfferObject {
  std::uint64_t offer = 0;
  ProcessId reader;  // the peer agent
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  bool plain = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &OfferObject::offer), field("reader", &OfferObject::reader),
                 field("slab", &OfferObject::slab), field("offset", &OfferObject::offset),
                 field("size_bytes", &OfferObject::size_bytes),
                 field("plain", &OfferObject::plain));
  }
  friend bool operator==(const OfferObject&, const OfferObject&) = default;
};

struct OfferFile {
  std::uint64_t offer = 0;
  ProcessId reader;
  Hash128 file;
  bool plain = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &OfferFile::offer), field("reader", &OfferFile::reader),
                 field("file", &OfferFile::file), field("plain", &OfferFile::plain));
  }
  friend bool operator==(const OfferFile&, const OfferFile&) = default;
};

// Nobody may ask for these bytes any more. Answered by BulkServed, when none are being read.
struct WithdrawBulk {
  std::uint64_t offer = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &WithdrawBulk::offer));
  }
  friend bool operator==(const WithdrawBulk&, const WithdrawBulk&) = default;
};

}  // namespace mobula::internal::worker
