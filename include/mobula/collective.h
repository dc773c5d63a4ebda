// Collective groups: actors that exchange tensors with all members of their group.
//
//   auto group = mobula::create_collective_group({a, b, c}, mobula::Transport::automatic, "ring");
//
// Thread: any thread of a member's process; a group runs one operation at a time.
// Errors: `CollectiveError` at every member if the members disagree, or if a member fails.
// Not: unequal shapes in one operation.
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
  // Creates a handle that refers to no actor.
  AnyActor() = default;
  // Converts a typed handle.
  template <class C>
  AnyActor(const ActorHandle<C>& handle) : anchor_(handle.anchor()) {}  // NOLINT: implicit
  // For the library.
  explicit AnyActor(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  // Reports whether the handle refers to no actor.
  bool empty() const { return anchor_ == nullptr; }
  // Returns the actor's id: 32 hexadecimal digits, or an empty string if the handle is empty.
  std::string id() const { return empty() ? std::string() : detail::hex(anchor_->ref().id); }
  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }

 private:
  std::shared_ptr<const detail::Anchor> anchor_;
};

// The operation of a reduction. Integers wrap. Floats of 16 bits are accumulated in 32 bits and
// rounded once. Floats of 8 bits are not supported.
enum class ReduceOp : std::uint8_t {
  sum,      // sum; logical or of booleans
  product,  // product; logical and of booleans
  min,      // minimum; logical and of booleans
  max,      // maximum; logical or of booleans
  average   // mean of floating-point and complex numbers; no other type
};

// Options of `create_collective_group`.
struct CollectiveGroupOptions {
  Duration timeout = std::chrono::minutes(5);          // default timeout of the operations
  Duration create_timeout = std::chrono::seconds(60);  // until all actors run and are connected
  int device = 0;  // for `nccl`: the GPU of each member, counted as in `Device`
};

// Options of an operation without a root and without a reduction.
struct CollectiveOptions {
  std::optional<Duration> timeout = {};  // timeout; the group's default if absent
};
// Options of a reduction without a root.
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;           // operation
  std::optional<Duration> timeout = {};  // timeout; the group's default if absent
};
// Options of an operation with a root.
struct RootOptions {
  int root = 0;                          // rank of the root
  std::optional<Duration> timeout = {};  // timeout; the group's default if absent
};
// Options of a reduction with a root.
struct RootReduceOptions {
  int root = 0;                          // rank of the root
  ReduceOp op = ReduceOp::sum;           // operation
  std::optional<Duration> timeout = {};  // timeout; the group's default if absent
};

// The state of a group as seen by one member.
struct CollectiveGroupState {
  // Path to each member by rank: "shm", "tcp, sealed", "tcp", or "gloo"; empty for this member.
  std::vector<std::string> paths = {};
  std::string device_path = {};     // path of GPU tensors: "nccl", or "staged" through host memory
  std::int64_t operations = 0;      // number of operations that this member completed
  std::int64_t bytes_sent = 0;      // bytes that this member sent
  std::int64_t bytes_received = 0;  // bytes that this member received
  std::int64_t staged_bytes = 0;    // bytes copied between devices and host memory
  std::string device_reason = {};   // for `automatic`: the latest reason for staging GPU tensors
};

// A handle of a group. Copies refer to the same group and can be passed and stored. A handle keeps
// neither the group nor its actors alive.
//
// Every member calls the same operations in the same order; each operation begins with a handshake
// of all members and returns when the member's part is done. If the members disagree, all of them
// get a `CollectiveError` that names the ranks, no data has moved, and the group stays usable. If a
// member exits, times out, or is cancelled, the others get a `CollectiveError` that names it, and
// the group can only be destroyed. Results are equal in every run with the same ranks and shapes,
// and equal at all members.
class MOBULA_API CollectiveGroup {
 public:
  // Creates a handle that refers to no group.
  CollectiveGroup() = default;

  // Reports whether the handle refers to no group.
  bool empty() const { return record_ == nullptr; }
  // Reports whether the handle refers to a group.
  explicit operator bool() const { return !empty(); }
  // Returns the group's id: 32 hexadecimal digits, or an empty string if the handle is empty.
  std::string id() const;
  // Returns the group's name; empty if it has none.
  const std::string& name() const;
  // Returns the number of members.
  int size() const;
  // Returns the transport that the group was created with.
  Transport transport() const;
  // Returns the ids of the actors by rank.
  const std::vector<std::string>& actor_ids() const;
  // Returns the rank of the actor whose process calls. `InvalidRequestError` in other processes.
  int rank() const;
  // Returns the state of the group as seen by the calling member.
  CollectiveGroupState state() const;

  // ---- operations, for methods of the group's actors --------------------------------------------
  //
  // Tensors are in host memory or on a GPU that this process leases. A tensor that is not
  // contiguous is copied first. A result is writable and has the device of the operand. Without an
  // operand, it has the GPU that the other members use, otherwise the first leased GPU, otherwise
  // host memory. GPU tensors are staged through host memory; `automatic` groups use a communicator
  // if all members can have one (see `state`). Members may use different kinds of devices. In
  // `nccl` groups all tensors are on the GPUs of the group.

  // Returns when all members have called it.
  void barrier(const CollectiveOptions& options = {}) const;
  // Returns the root's tensor. Other members pass nothing, or a tensor of the same shape and dtype.
  Tensor broadcast(const Tensor& tensor = {}, const RootOptions& options = {}) const;
  // Copies the root's elements into the tensors of the other members.
  void broadcast_in_place(Tensor& tensor, const RootOptions& options = {}) const;
  // Returns the element-wise reduction over all members, in the shape of the operand.
  Tensor all_reduce(const Tensor& tensor, const ReduceOptions& options = {}) const;
  // Replaces the tensor's elements by the element-wise reduction over all members.
  void all_reduce_in_place(Tensor& tensor, const ReduceOptions& options = {}) const;
  // Returns the element-wise reduction at the root, and an empty tensor at the other members.
  Tensor reduce(const Tensor& tensor, const RootReduceOptions& options = {}) const;
  // Returns this rank's slice of the reduction. The first dimension, a multiple of `size()`, is
  // divided among the ranks.
  Tensor reduce_scatter(const Tensor& tensor, const ReduceOptions& options = {}) const;
  // Returns one tensor per rank. All have one shape and are views of one buffer.
  std::vector<Tensor> all_gather(const Tensor& tensor, const CollectiveOptions& options = {}) const;
  // Returns one tensor per rank at the root, and an empty vector at the other members.
  std::vector<Tensor> gather(const Tensor& tensor, const RootOptions& options = {}) const;
  // Returns this rank's tensor. The root passes one tensor per rank, all of one shape; the other
  // members pass none.
  Tensor scatter(const std::vector<Tensor>& tensors = {}, const RootOptions& options = {}) const;
  // Sends one tensor to each rank and returns one tensor from each rank, all of one shape.
  std::vector<Tensor> all_to_all(const std::vector<Tensor>& tensors,
                                 const CollectiveOptions& options = {}) const;

  // Sends a tensor to the member `to`. Only these two members take part, and both wait for each
  // other. Two members that send to each other at the same time get a `CollectiveError`.
  void send(const Tensor& tensor, int to, const CollectiveOptions& options = {}) const;
  // Returns the tensor that the member `from` sends.
  Tensor receive(int from, const CollectiveOptions& options = {}) const;

  // For the library.
  struct Record;
  // For the library.
  explicit CollectiveGroup(std::shared_ptr<const Record> record) : record_(std::move(record)) {}
  // For the library.
  const std::shared_ptr<const Record>& record() const { return record_; }

 private:
  std::shared_ptr<const Record> record_;
};

// Serializes handles of groups.
template <>
struct MOBULA_API Serializer<CollectiveGroup> {
  // Writes the handle.
  static void write(Writer& out, const CollectiveGroup& group);
  // Reads a handle.
  static CollectiveGroup read(Reader& in);
};

// Connects 1 to 512 actors and returns when all are connected, even while they run calls. The rank
// of an actor is its position in the list. An actor may be a member of several groups.
//
// `automatic` uses shared memory within a machine and TCP between machines, encrypted unless both
// machines trust the fabric. `shm` and `tcp` use that path alone. `gloo` and `ucx` use the
// transport plugin of that name. `nccl` creates one communicator of all members' GPUs, for GPU
// tensors.
//
// `InvalidRequestError`: the list is empty, or contains an actor twice or an empty handle.
// `TransferError`: the transport is not available to the group; the text names the member and the
// reason. `ActorDiedError`: a member is dead. `CollectiveError`: a member is in another group of
// this name, or did not join before the timeout. After an error no part of the group remains.
MOBULA_API CollectiveGroup create_collective_group(const std::vector<AnyActor>& actors,
                                                   Transport transport = Transport::automatic,
                                                   const std::string& name = "",
                                                   const CollectiveGroupOptions& options = {});
// Connects actors of one class.
template <class C>
CollectiveGroup create_collective_group(const std::vector<ActorHandle<C>>& actors,
                                        Transport transport = Transport::automatic,
                                        const std::string& name = "",
                                        const CollectiveGroupOptions& options = {}) {
  return create_collective_group(std::vector<AnyActor>(actors.begin(), actors.end()), transport,
                                 name, options);
}

// Ends the group's operations with a `CollectiveError`, closes its connections, and returns when
// all live members have done so. Callable in the process that created the group and in its members.
// A second call has no effect.
MOBULA_API void destroy_collective_group(const CollectiveGroup& group);

// Returns the group of this name that the calling actor belongs to; otherwise `NotFoundError`.
MOBULA_API CollectiveGroup collective_group(const std::string& name);

}  // namespace mobula
