// Collective groups: actors that exchange tensors with all of their group at once.
//
//   auto group = mobula::create_collective_group({a, b, c}, mobula::Transport::automatic, "ring");
//
//   mobula::Tensor Worker::step(const mobula::Tensor& gradient) {        // in a method of each of them
//     return mobula::collective_group("ring").all_reduce(gradient, {.op = mobula::ReduceOp::average});
//   }
//
// Every member calls the same operations in the same order. Each operation is a meeting: it returns when all have
// come and this member's part is done. If they do not want the same, all of them get a CollectiveError that says
// who differs, nothing has moved, and the group is as it was. If a member ends, gives up at its time-out or is
// cancelled, all others get a CollectiveError that names it, and the group can only be destroyed.
//
// Results are the same in every run with the same ranks and shapes, and at all members. Any thread of a member's
// process; a group does one operation at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/actor.h>
#include <mobula/options.h>
#include <mobula/tensor.h>

namespace mobula {

// A handle of an actor of any class.
class AnyActor {
 public:
  AnyActor() = default;
  template <class C>
  AnyActor(const ActorHandle<C>& handle) : anchor_(handle.anchor()) {}  // NOLINT: implicit

  bool empty() const { return anchor_ == nullptr; }
  std::string id() const { return empty() ? std::string() : detail::hex(anchor_->ref().id); }
  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }

 private:
  std::shared_ptr<const detail::Anchor> anchor_;
};

// Integers wrap; booleans are joined by "or" (sum, max) and "and" (product, min). `average` is for floating point
// and complex numbers. 16-bit floats are added up in 32 bits and rounded once. Not for 8-bit floats.
enum class ReduceOp : std::uint8_t { sum, product, min, max, average };

struct CollectiveGroupOptions {
  Duration timeout = std::chrono::minutes(5);         // of operations that have none of their own
  Duration create_timeout = std::chrono::seconds(60);  // until all actors run and are connected
  int device = 0;  // of `nccl`: which of its GPUs each member takes part with, as mobula::Device counts
};

struct CollectiveOptions {
  std::optional<Duration> timeout = {};
};
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  std::optional<Duration> timeout = {};
};
struct RootOptions {
  int root = 0;
  std::optional<Duration> timeout = {};
};
struct RootReduceOptions {
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  std::optional<Duration> timeout = {};
};

// How a group goes, as one of its members sees it.
struct CollectiveGroupState {
  std::vector<std::string> paths = {};  // to each other member, by rank: "shm", "tcp, sealed", "tcp", "gloo"; empty for itself
  std::string device_path = {};         // of tensors on GPUs: "nccl", or "staged" by way of host memory
  std::int64_t operations = 0;          // that this member has done
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::int64_t staged_bytes = 0;        // copied between devices and the host's memory for that
  std::string device_reason = {};       // of `automatic`: why tensors on GPUs went by way of the host, the last time
};

// Names a group. Copies name the same; may be passed and stored in values. Its end does not destroy the group,
// and it does not keep the actors.
class MOBULA_API CollectiveGroup {
 public:
  // Names none.
  CollectiveGroup() = default;

  bool empty() const { return record_ == nullptr; }
  explicit operator bool() const { return !empty(); }
  std::string id() const;  // 32 digits; empty for none
  const std::string& name() const;
  int size() const;
  Transport transport() const;
  // By rank.
  const std::vector<std::string>& actor_ids() const;
  // Of the actor in whose process this is called; InvalidRequestError elsewhere.
  int rank() const;
  CollectiveGroupState state() const;

  // ---- operations: in methods of the group's actors ---------------------------------------------
  // Tensors lie in host memory, or on a GPU of this process's lease; those that are not contiguous are copied
  // first. What is returned may be written, and lies where the operand does; without one, on the GPU that the
  // others name, else on the first of the lease, else in host memory. Tensors on GPUs go by way of host memory, or in
  // `automatic` groups by a communicator where all can have one (state() says so), and the members' need not lie on
  // the same kind of device. In groups over `nccl` all lie on the GPUs that the group was made with.

  void barrier(const CollectiveOptions& options = {}) const;
  // The root's tensor. The others give nothing, or a tensor of the same shape and dtype.
  Tensor broadcast(const Tensor& tensor = {}, const RootOptions& options = {}) const;
  // The root's elements come to lie in the tensors of the others.
  void broadcast_in_place(Tensor& tensor, const RootOptions& options = {}) const;
  // Element by element over all members, in the shape of each.
  Tensor all_reduce(const Tensor& tensor, const ReduceOptions& options = {}) const;
  void all_reduce_in_place(Tensor& tensor, const ReduceOptions& options = {}) const;
  // The same at the root; the others get an empty tensor.
  Tensor reduce(const Tensor& tensor, const RootReduceOptions& options = {}) const;
  // The reduction's part of this rank: its first dimension, which is a multiple of size(), is divided.
  Tensor reduce_scatter(const Tensor& tensor, const ReduceOptions& options = {}) const;
  // One tensor of each rank, all of one shape; they are looks at one memory.
  std::vector<Tensor> all_gather(const Tensor& tensor, const CollectiveOptions& options = {}) const;
  // The same at the root; nothing elsewhere.
  std::vector<Tensor> gather(const Tensor& tensor, const RootOptions& options = {}) const;
  // The root gives one tensor for each rank, all of one shape; the others give none.
  Tensor scatter(const std::vector<Tensor>& tensors = {}, const RootOptions& options = {}) const;
  // One for each rank, one from each rank, all of one shape.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& tensors, const CollectiveOptions& options = {}) const;

  // Of two members alone. Both wait for each other; two that send to each other at once get a CollectiveError.
  void send(const Tensor& tensor, int to, const CollectiveOptions& options = {}) const;
  Tensor receive(int from, const CollectiveOptions& options = {}) const;

  // For the library.
  struct Record;
  explicit CollectiveGroup(std::shared_ptr<const Record> record) : record_(std::move(record)) {}
  const std::shared_ptr<const Record>& record() const { return record_; }

 private:
  std::shared_ptr<const Record> record_;
};

template <>
struct MOBULA_API Serializer<CollectiveGroup> {
  static void write(Writer& out, const CollectiveGroup& group);
  static CollectiveGroup read(Reader& in);
};

// Connects 1 to 512 actors, whose ranks are their places in the list; returns when all are connected, whatever
// they are doing. An actor may be in several groups. `automatic`: shared memory within a machine, else TCP, sealed
// unless both machines trust the fabric; `shm`, `tcp`: only that. `gloo`, `ucx`: by the library of that transport
// plug-in. `nccl`: one communicator of all members' GPUs, for tensors that lie there.
//
// InvalidRequestError: an empty list, an actor twice, a handle of none. TransferError: a transport that the group
// cannot have, with the member and the reason. ActorDiedError: a member is dead. CollectiveError: a member is in
// another group of this name, or has not joined at the time-out, with its rank. Nothing is left of it then.
MOBULA_API CollectiveGroup create_collective_group(const std::vector<AnyActor>& actors,
                                                   Transport transport = Transport::automatic,
                                                   const std::string& name = "",
                                                   const CollectiveGroupOptions& options = {});
template <class C>
CollectiveGroup create_collective_group(const std::vector<ActorHandle<C>>& actors,
                                        Transport transport = Transport::automatic, const std::string& name = "",
                                        const CollectiveGroupOptions& options = {}) {
  return create_collective_group(std::vector<AnyActor>(actors.begin(), actors.end()), transport, name, options);
}

// Ends what the group is doing, with a CollectiveError, and closes its connections; returns when the members that
// live have done so. Where the group was created, or at a member. Once more does nothing.
MOBULA_API void destroy_collective_group(const CollectiveGroup& group);

// The group of this name that this process's actor is in; NotFoundError.
MOBULA_API CollectiveGroup collective_group(const std::string& name);

}  // namespace mobula
