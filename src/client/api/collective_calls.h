// What the members of a collective group are asked while it is made and unmade: calls of the library's own, which
// run beside the actors' methods. Values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mobula/collective.h>
#include <mobula/detail/runtime.h>

namespace mobula {

struct CollectiveGroup::Record {
  detail::RawId id = {};
  std::string name = {};
  Transport transport = Transport::automatic;
  std::int64_t timeout_ns = 0;  // of operations
  std::vector<std::string> actors = {};
  // Where it was made: the handles, as long as somebody there has them.
  std::vector<std::weak_ptr<const detail::Anchor>> handles = {};
};

namespace detail {

struct CollectiveJoin {
  std::uint64_t id_high = 0;
  std::uint64_t id_low = 0;
  std::string name = {};
  std::uint32_t rank = 0;
  Transport transport = Transport::automatic;
  std::int64_t timeout_ns = 0;
  std::vector<std::uint8_t> key = {};
  std::vector<std::string> actors = {};
  std::uint32_t device = 0;
};

// Where a member is reached, or why it cannot be in the group.
struct CollectiveJoined {
  std::string machine = {};
  std::string local = {};
  std::string address = {};
  std::string fabric = {};
  std::string refusal = {};
  bool transport_refused = false;
  std::string carrier = {};  // of a group over a plug-in's library
  // Of a group with a communicator.
  std::string process = {};
  std::string device = {};
  std::string nccl_host = {};
  std::string nccl_version = {};
};

struct CollectiveConnect {
  std::uint64_t id_high = 0;
  std::uint64_t id_low = 0;
  std::int64_t timeout_ns = 0;
  std::vector<CollectiveJoined> members = {};
};

struct CollectiveId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

CollectiveJoined collective_join(const CollectiveJoin& request);
// Why it could not; empty where it could.
std::string collective_connect(const CollectiveConnect& request);
std::string collective_open(const CollectiveConnect& request);
void collective_leave(const CollectiveId& group);

}  // namespace detail

}  // namespace mobula
