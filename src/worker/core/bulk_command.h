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

// Read an object's bytes from a peer's bulk server into a slab. Answered by PullFinished.
struct StartPull {
  std::uint64_t pull = 0;
  AgentAddress from;
  std::string token;
  std::string key;
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &StartPull::pull), field("from", &StartPull::from),
                 field("token", &StartPull::token), field("key", &StartPull::key),
                 field("slab", &StartPull::slab), field("offset", &StartPull::offset),
                 field("size_bytes", &StartPull::size_bytes));
  }
  friend bool operator==(const StartPull&, const StartPull&) = default;
};

// Read a program file into the program store, under its hash. Answered by PullFinished.
struct StartFilePull {
  std::uint64_t pull = 0;
  AgentAddress from;
  std::string token;
  std::string key;
  Hash128 file;
  std::uint64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &StartFilePull::pull), field("from", &StartFilePull::from),
                 field("token", &StartFilePull::token), field("key", &StartFilePull::key),
                 field("file", &StartFilePull::file),
                 field("size_bytes", &StartFilePull::size_bytes));
  }
  friend bool operator==(const StartFilePull&, const StartFilePull&) = default;
};

// Still answered by PullFinished.
struct CancelPull {
  std::uint64_t pull = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("pull", &CancelPull::pull));
  }
  friend bool operator==(const CancelPull&, const CancelPull&) = default;
};

// Let one peer read these bytes once, under a fresh token and key. Answered by BulkOffered and, if
// that had no failure, by BulkServed.
struct OfferObject {
  std::uint64_t offer = 0;
  ProcessId reader;  // the peer agent
  SlabId slab;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &OfferObject::offer), field("reader", &OfferObject::reader),
                 field("slab", &OfferObject::slab), field("offset", &OfferObject::offset),
                 field("size_bytes", &OfferObject::size_bytes));
  }
  friend bool operator==(const OfferObject&, const OfferObject&) = default;
};

struct OfferFile {
  std::uint64_t offer = 0;
  ProcessId reader;
  Hash128 file;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &OfferFile::offer), field("reader", &OfferFile::reader),
                 field("file", &OfferFile::file));
  }
  friend bool operator==(const OfferFile&, const OfferFile&) = default;
};

// The token is worth nothing from now on; a transfer that runs is cut. Answered by BulkServed.
struct WithdrawBulk {
  std::uint64_t offer = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("offer", &WithdrawBulk::offer));
  }
  friend bool operator==(const WithdrawBulk&, const WithdrawBulk&) = default;
};

}  // namespace mobula::internal::worker
