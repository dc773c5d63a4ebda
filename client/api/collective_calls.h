// Internal calls to the members of a collective group during its creation and destruction. They run
// outside the order of the actors' methods.
// Thread: any (values).
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
  std::int64_t timeout_ns = 0;  // timeout of operations
  std::vector<std::string> actors = {};
  // At the creator: the handles that still exist there.
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

// Endpoint of a member, or the reason why it cannot join.
struct CollectiveJoined {
  std::string machine = {};
  std::string local = {};
  std::string address = {};
  std::string fabric = {};
  std::string refusal = {};
  bool transport_refused = false;
  std::string carrier = {};  // set in a group over a plugin
  // Set in a group with a communicator.
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

// NCCL of a member's process.
struct CollectiveNccl {
  bool shares_gpu = false;  // it accepts another rank on its GPU
};

struct CollectiveId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

CollectiveJoined collective_join(const CollectiveJoin& request);
// Asked only if two members share a GPU. A separate call, because the values of `collective_join`
// must stay those of earlier releases, whose members have no reply to this call.
CollectiveNccl collective_nccl(const CollectiveId& group);
// Reason of the failure; empty on success.
std::string collective_connect(const CollectiveConnect& request);
std::string collective_open(const CollectiveConnect& request);
void collective_leave(const CollectiveId& group);

}  // namespace detail

}  // namespace mobula
