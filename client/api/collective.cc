#include <mobula/collective.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include <mobula/context.h>
#include <mobula/errors.h>

#include "base/time.h"
#include "client/api/collective_calls.h"
#include "client/api/rules.h"
#include "client/engine/tensors/collective_groups.h"
#include "protocol/transfer_log.h"
#include "tensor/device_elements.h"

namespace mobula {
namespace {

namespace collective = internal::collective;
using collective::Operation;
using collective::OperationKind;
using collective::Refusal;

// One operation of this process's member of a group.
class Operating {
 public:
  Operating(const CollectiveGroup& group, OperationKind kind,
            const std::optional<Duration>& timeout)
      : group_(group), runtime_(detail::runtime()) {
    if (group.empty())
      internal::client::refuse("collective group", "it names a created group", "an empty one");
    operation_.kind = kind;
    const auto& record = *group.record();
    collective::GroupId id{};
    for (unsigned i = 0; i < 8; ++i) {
      id[i] = static_cast<std::byte>(record.id.high >> (8 * i));
      id[8 + i] = static_cast<std::byte>(record.id.low >> (8 * i));
    }
    const auto groups = runtime_->collectives();
    if (groups) member_ = groups->find(id);
    if (!member_ && groups && groups->has_left(id)) {
      fail({Refusal::Kind::destroyed, {}, "the group was destroyed"});
    }
    if (!member_) {
      throw InvalidRequestError(
          what() +
          ": the actor of this process is not in the group; operations are for methods of its "
          "actors, in the incarnations that were there when it was made");
    }
    by_device_ = has_communicator();
    const Duration given = std::chrono::nanoseconds(record.timeout_ns);
    const auto deadline = detail::deadline_after(timeout.value_or(given));
    if (deadline) {
      limits_.deadline = internal::Time::from_ns(
          std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch())
              .count());
    }
    limits_.cancelled = [runtime = runtime_] { return runtime->cancelled(); };
  }

  // A communicator that exists from the start reads and writes operands in place, on its device.
  bool has_communicator() const {
    return member_->communication() == collective::Communication::always;
  }
  std::uint32_t rank() const { return member_->group().rank; }
  std::uint32_t size() const { return member_->group().size(); }
  Operation& operation() { return operation_; }

  void reduce_by(ReduceOp op) {
    if (op > ReduceOp::average)
      internal::client::refuse("op", "one of ReduceOp", std::to_string(static_cast<int>(op)));
    operation_.reduce = static_cast<collective::ReduceKind>(op);
  }
  void root(int rank) {
    if (rank < 0 || rank >= group_.size()) {
      internal::client::refuse("root", "a rank, 0 to " + std::to_string(group_.size() - 1),
                               std::to_string(rank));
    }
    operation_.root = static_cast<std::uint32_t>(rank);
  }
  bool is_root() const { return operation_.root == rank(); }

  CollectiveGroupState state() const {
    const auto passage = member_->passage();
    CollectiveGroupState state;
    state.paths = member_->paths();
    state.device_path = member_->device() ? "nccl" : "staged";
    state.device_reason = member_->no_communicator();
    state.operations = static_cast<std::int64_t>(passage.operations);
    state.bytes_sent = static_cast<std::int64_t>(passage.bytes_sent);
    state.bytes_received = static_cast<std::int64_t>(passage.bytes_received);
    state.staged_bytes = static_cast<std::int64_t>(passage.staged_bytes);
    return state;
  }

  // Sets the input of this member.
  void give(const Tensor& tensor) {
    lies_on(tensor);
    given_ = ready(tensor);
    operation_.dtype = given_.dtype();
    operation_.shape = given_.shape();
    input_ = bytes_of(given_);
  }
  // Sets an input that the result overwrites.
  void give_in_place(const Tensor& tensor) {
    if (!tensor.is_contiguous())
      internal::client::refuse("tensor", "contiguous, to be written in place",
                               "strides; use contiguous()");
    give(tensor);
  }
  void other(int rank) const {
    if (rank >= 0 && rank < group_.size() && rank != static_cast<int>(this->rank())) return;
    internal::client::refuse(
        "rank", "the rank of another member, 0 to " + std::to_string(group_.size() - 1),
        std::to_string(rank));
  }
  // Sets one input per rank, copied into one buffer.
  void give(const std::vector<Tensor>& tensors) {
    if (tensors.size() != size()) {
      internal::client::refuse("tensors",
                               "one for each of the " + std::to_string(size()) + " ranks",
                               std::to_string(tensors.size()));
    }
    lies_on(tensors[0]);
    std::vector<std::int64_t> shape = tensors[0].shape();
    shape.insert(shape.begin(), static_cast<std::int64_t>(size()));
    Tensor together =
        Tensor::empty(Extents(shape), tensors[0].dtype(), stays_there() ? device_ : Device{});
    auto* to = static_cast<std::byte*>(together.mutable_data());
    for (const Tensor& each : tensors) {
      if (each.shape() != tensors[0].shape() || each.dtype() != tensors[0].dtype()) {
        internal::client::refuse("tensors", "all of one shape and dtype", "different ones");
      }
      if (each.device() != tensors[0].device()) {
        internal::client::refuse("tensors", "all on one device, or all in host memory",
                                 "different ones");
      }
      const Tensor part = ready(each);
      const auto bytes = bytes_of(part);
      if (stays_there()) {
        if (auto copied = detail::copy_timeout(device_.index, bytes, to); !copied)
          fail_to_copy(copied.error());
      } else if (!bytes.empty()) {
        std::memcpy(to, bytes.data(), bytes.size());
      }
      to += bytes.size();
    }
    given_ = std::move(together);
    input_ = bytes_of(given_);
    operation_.dtype = tensors[0].dtype();
    operation_.shape = tensors[0].shape();
  }
  void leave_open() {
    operation_.open = true;
    // The result may be placed on the device of the group's communicator.
    if (member_->communicated_from()) operation_.device = member_->device_name();
  }

  // The complete output of this member: `parts` of the agreed shape.
  Tensor run(std::size_t parts = 1) {
    Tensor got, to;
    perform([&](const Operation& agreed) -> internal::Result<collective::Memory> {
      const auto bytes = collective::output_bytes(agreed, rank(), size());
      if (bytes == 0 && agreed.bytes() != 0) return collective::Memory{input_, {}, {}, kept()};
      std::vector<std::int64_t> shape = agreed.shape;
      if (agreed.kind == OperationKind::reduce_scatter)
        shape[0] /= static_cast<std::int64_t>(size());
      if (parts > 1) shape.insert(shape.begin(), static_cast<std::int64_t>(parts));
      if (operation_.open) lands(agreed.device);
      got = Tensor::empty(Extents(shape), agreed.dtype, by_device_ ? device_ : Device{});
      to = landing(got);
      return collective::Memory{
          input_, {static_cast<std::byte*>(got.mutable_data()), bytes}, {}, kept(got)};
    });
    return landed(std::move(got), std::move(to));
  }
  void run_in_place(Tensor& tensor) {
    (void)tensor.mutable_data();  // rejects before any member is notified
    kept_in_ = &tensor;
    perform([&](const Operation& agreed) -> internal::Result<collective::Memory> {
      if (by_device_ && waits_ && agreed.kind == OperationKind::all_reduce) keep_operand();
      Tensor& work = is_staged() ? given_ : tensor;
      const std::span<std::byte> bytes(static_cast<std::byte*>(work.mutable_data()),
                                       static_cast<std::size_t>(work.bytes()));
      return collective::Memory{bytes, bytes, {}, kept(tensor)};
    });
    if (is_staged()) (void)landed(given_, tensor);
  }
  void run_barrier() {
    perform([](const Operation&) { return collective::Memory{}; });
  }
  // Views of `whole`, divided along its first dimension.
  std::vector<Tensor> divided(const Tensor& whole) const {
    std::vector<Tensor> parts;
    const auto each = agreed_.bytes();
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      detail::TensorParts view = whole.parts();
      view.shape = agreed_.shape;
      view.strides.assign(whole.strides().begin() + (size() > 1 ? 1 : 0), whole.strides().end());
      if (view.storage) view.byte_offset += each * rank;
      parts.emplace_back(std::move(view));
    }
    return parts;
  }

  void send(int to) {
    operation_.kind = OperationKind::send;
    if (!waits_) count_staged();
    const auto prepare = prepared([&](const Operation&) {
      return collective::Memory{input_, {}, {}, kept()};
    });
    end(member_->send(static_cast<std::uint32_t>(to), operation_, prepare, limits_, &journey_));
  }
  Tensor receive(int from) {
    Tensor got, to;
    const auto prepare = prepared([&](const Operation& sent) {
      lands(sent.device);
      got = Tensor::empty(Extents(sent.shape), sent.dtype, by_device_ ? device_ : Device{});
      to = landing(got);
      return collective::Memory{
          {},
          {static_cast<std::byte*>(got.mutable_data()), static_cast<std::size_t>(got.bytes())},
          {},
          kept(got)};
    });
    end(member_->receive(static_cast<std::uint32_t>(from), prepare, limits_, &journey_));
    return landed(std::move(got), std::move(to));
  }

 private:
  std::string what() const {
    std::string text = "collective group ";
    text += group_.name().empty() ? group_.id() : "\"" + group_.name() + "\"";
    return text;
  }

  // Places the result on the device of this tensor.
  void lies_on(const Tensor& tensor) {
    device_ = tensor.device();
    operation_.device = detail::made_on(tensor);
    // The handshake decides whether the operand is copied to the host.
    const auto from = member_->communicated_from();
    waits_ =
        from && device_.kind != Device::cpu && static_cast<std::size_t>(tensor.bytes()) >= *from;
    if (waits_) operation_.library = runtime_->collectives()->library();
  }
  // A member without input gets its result on the device of the others.
  void lands(const std::string& device) {
    if (by_device_) {
      device_ = {Device::cuda, static_cast<int>(*member_->device())};
    } else {
      device_ = device.empty() ? Device() : detail::landing_of(device);
    }
  }
  bool stays_there() const { return has_communicator() || waits_; }
  // Connections carry host memory, so device operands are staged through it.
  bool is_staged() const { return device_.kind != Device::cpu && !by_device_; }
  // The elements as they are sent: contiguous, complete, and where the transport can read them.
  Tensor ready(const Tensor& tensor) const {
    if (!stays_there()) return tensor.to(Device{}).contiguous();
    if (has_communicator()) check_device(tensor);
    Tensor there = tensor.contiguous();
    if (auto finished = detail::finish_elements(there.parts()); !finished)
      fail_to_copy(finished.error());
    return there;
  }
  void check_device(const Tensor& tensor) const {
    const int own = static_cast<int>(*member_->device());
    if (tensor.device() == Device{Device::cuda, own}) return;
    internal::client::refuse("tensor",
                             "this group's communicator uses GPU " + std::to_string(own) +
                                 " (index in this process); to() copies it there",
                             tensor.device().kind == Device::cpu
                                 ? "one in host memory"
                                 : "one on GPU " + std::to_string(tensor.device().index));
  }
  // Memory that the library may use for longer than a failed call.
  std::shared_ptr<const void> kept(const Tensor& got = {}) const {
    return std::make_shared<const std::pair<Tensor, Tensor>>(given_, got);
  }
  [[noreturn]] void fail_to_copy(const internal::Failure& why) const {
    detail::ErrorRecord error;
    error.kind = detail::ErrorKind::transfer;
    error.path = has_communicator() ? "nccl" : "staged";
    error.reason = why.text;
    error.message =
        what() + ": " + operation_.text() + ": the device does not copy its elements: " + why.text;
    detail::throw_error(error);
  }
  // Device memory for a result that arrives in host memory, allocated before any byte moves.
  Tensor landing(const Tensor& host) const {
    return is_staged() ? Tensor::empty(Extents(host.shape()), host.dtype(), device_) : Tensor();
  }
  Tensor landed(Tensor got, Tensor to) {
    if (!is_staged()) return got;
    if (to.device().kind == Device::cpu) return got;  // no result
    if (to.bytes() == 0) return to;
    const auto bytes = bytes_of(got);
    auto copied =
        detail::copy_to_device(device_.index, bytes, static_cast<std::byte*>(to.mutable_data()));
    if (!copied) fail_to_copy(copied.error());
    member_->staged(bytes.size());
    return to;
  }
  static std::span<const std::byte> bytes_of(const Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.data()), static_cast<std::size_t>(tensor.bytes())};
  }

  // An in-place reduction overwrites its operand. This copy is the operand of the fallback path if
  // the communicator fails halfway. It is in host memory if the GPU has too little.
  void keep_operand() {
    try {
      Tensor copy = Tensor::empty(Extents(given_.shape()), given_.dtype(), device_);
      if (detail::copy_timeout(device_.index, bytes_of(given_),
                               static_cast<std::byte*>(copy.mutable_data()))) {
        operand_ = std::move(copy);
        return;
      }
    } catch (const Error&) {
    }
    operand_ = given_.to(Device{});
    member_->staged(static_cast<std::size_t>(given_.bytes()));
  }
  // Best effort, because the call fails for another reason.
  void put_operand_back() {
    auto* const to = static_cast<std::byte*>(kept_in_->mutable_data());
    const auto bytes = bytes_of(*operand_);
    (void)(operand_->device().kind == Device::cpu ? detail::copy_to_device(device_.index, bytes, to)
                                                  : detail::copy_timeout(device_.index, bytes, to));
  }
  void count_staged() {
    if (is_staged()) member_->staged(input_.size());
  }
  // Moves the operand to its device, then allocates memory for the result.
  collective::Prepare prepared(
      std::function<internal::Result<collective::Memory>(const Operation&)> take) {
    return [this, take = std::move(take)](const Operation& agreed,
                                          bool on_device) -> internal::Result<collective::Memory> {
      agreed_ = agreed;
      by_device_ = on_device;
      try {
        if (waits_ && !on_device) {
          given_ = (operand_ ? *operand_ : given_).to(Device{}).contiguous();
          input_ = bytes_of(given_);
          count_staged();
        }
        return take(agreed);
      } catch (const Error& failed) {
        return internal::failure(internal::ErrorCode::resource_exhausted, failed.what());
      }
    };
  }
  void perform(std::function<internal::Result<collective::Memory>(const Operation&)> take) {
    if (!waits_) count_staged();
    collective::Member::Given given;
    if (!waits_) given.operand = input_;
    if (device_.kind != Device::cpu)
      given.device_ordinal = static_cast<std::uint32_t>(device_.index);
    end(member_->run(operation_, given, prepared(std::move(take)), limits_, &journey_));
  }
  void end(std::optional<Refusal> refused) {
    note(refused);
    if (refused && operand_) put_operand_back();
    if (refused) fail(std::move(*refused));
  }
  // For the transfer log. A member that was rejected before any byte moved has moved none.
  void note(const std::optional<Refusal>& refused) const {
    const bool broke = refused && refused->kind != Refusal::Kind::invalid &&
                       refused->kind != Refusal::Kind::mismatch;
    const bool moved = journey_.bytes_sent + journey_.bytes_received > 0;
    if (refused ? !(broke && moved) : !moved) return;
    internal::transfer::TransferRecord record;
    record.group = group_.name().empty() ? group_.id() : group_.name();
    record.operation = agreed_.text() + " with " + journey_.others;
    record.failed = refused.has_value();
    record.size_bytes = static_cast<std::int64_t>(journey_.bytes_received);
    record.sent_bytes = static_cast<std::int64_t>(journey_.bytes_sent);
    record.queued = journey_.queued;
    record.moved = journey_.moved;
    record.ended = internal::monotonic_now();
    record.encrypted = journey_.encrypted;
    const auto by = [&] {
      if (journey_.way == collective::MemberCore::Way::device) return internal::DirectPath::nccl;
      return is_staged() ? internal::DirectPath::staged : journey_.path;
    };
    record.path = by();
    if (is_staged() && !journey_.no_communicator.empty())
      record.refusals.push_back(journey_.no_communicator);
    if (refused)
      record.refusals.push_back(std::string(to_string(record.path)) + ": " + refused->text);
    runtime_->note_of_group(std::move(record));
  }

  [[noreturn]] void fail(Refusal refused) const {
    detail::ErrorRecord error;
    error.message = what() + ": " + refused.text;
    error.group = group_.name();
    for (const auto rank : refused.ranks) error.ranks.push_back(static_cast<int>(rank));
    error.kind = detail::ErrorKind::collective;
    switch (refused.kind) {
      case Refusal::Kind::invalid:
        error.kind = detail::ErrorKind::invalid_request;
        error.ranks.clear();
        break;
      case Refusal::Kind::cancelled: error.kind = detail::ErrorKind::task_cancelled; break;
      case Refusal::Kind::mismatch: error.reason = "mismatch"; break;
      case Refusal::Kind::timed_out: error.reason = "timed_out"; break;
      case Refusal::Kind::destroyed: error.reason = "destroyed"; break;
      case Refusal::Kind::broken: error.reason = "broken"; break;
    }
    detail::throw_error(error);
  }

  const CollectiveGroup& group_;
  const std::shared_ptr<detail::Runtime> runtime_;
  std::shared_ptr<collective::Member> member_;
  Operation operation_;
  Operation agreed_;
  Device device_;           // device of the operand and of the result
  bool waits_ = false;      // the operand is still on its device, and may stay there
  bool by_device_ = false;  // a communicator carries the elements
  collective::Journey journey_;
  Tensor given_;
  std::span<const std::byte> input_;
  Tensor* kept_in_ = nullptr;      // tensor written in place
  std::optional<Tensor> operand_;  // its original elements, if a communicator overwrites them
  collective::Limits limits_;
};

}  // namespace

CollectiveGroupState CollectiveGroup::state() const {
  return Operating(*this, OperationKind::barrier, {}).state();
}

int CollectiveGroup::rank() const {
  return static_cast<int>(Operating(*this, OperationKind::barrier, {}).rank());
}

void CollectiveGroup::barrier(const CollectiveOptions& options) const {
  Operating(*this, OperationKind::barrier, options.timeout).run_barrier();
}

Tensor CollectiveGroup::broadcast(const Tensor& tensor, const RootOptions& options) const {
  Operating operating(*this, OperationKind::broadcast, options.timeout);
  operating.root(options.root);
  if (operating.is_root() || tensor.size() != 0) {
    operating.give(tensor);
  } else {
    operating.leave_open();
  }
  return operating.run();
}

void CollectiveGroup::broadcast_in_place(Tensor& tensor, const RootOptions& options) const {
  Operating operating(*this, OperationKind::broadcast, options.timeout);
  operating.root(options.root);
  operating.give_in_place(tensor);
  operating.run_in_place(tensor);
}

Tensor CollectiveGroup::all_reduce(const Tensor& tensor, const ReduceOptions& options) const {
  Operating operating(*this, OperationKind::all_reduce, options.timeout);
  operating.reduce_by(options.op);
  operating.give(tensor);
  return operating.run();
}

void CollectiveGroup::all_reduce_in_place(Tensor& tensor, const ReduceOptions& options) const {
  Operating operating(*this, OperationKind::all_reduce, options.timeout);
  operating.reduce_by(options.op);
  operating.give_in_place(tensor);
  operating.run_in_place(tensor);
}

Tensor CollectiveGroup::reduce(const Tensor& tensor, const RootReduceOptions& options) const {
  Operating operating(*this, OperationKind::reduce, options.timeout);
  operating.reduce_by(options.op);
  operating.root(options.root);
  operating.give(tensor);
  Tensor whole = operating.run();
  return operating.is_root() ? whole : Tensor();
}

Tensor CollectiveGroup::reduce_scatter(const Tensor& tensor, const ReduceOptions& options) const {
  Operating operating(*this, OperationKind::reduce_scatter, options.timeout);
  operating.reduce_by(options.op);
  operating.give(tensor);
  return operating.run();
}

std::vector<Tensor> CollectiveGroup::all_gather(const Tensor& tensor,
                                                const CollectiveOptions& options) const {
  Operating operating(*this, OperationKind::all_gather, options.timeout);
  operating.give(tensor);
  const Tensor whole = operating.run(operating.size());
  return operating.divided(whole);
}

std::vector<Tensor> CollectiveGroup::gather(const Tensor& tensor,
                                            const RootOptions& options) const {
  Operating operating(*this, OperationKind::gather, options.timeout);
  operating.root(options.root);
  operating.give(tensor);
  const Tensor whole = operating.run(operating.size());
  return operating.is_root() ? operating.divided(whole) : std::vector<Tensor>();
}

Tensor CollectiveGroup::scatter(const std::vector<Tensor>& tensors,
                                const RootOptions& options) const {
  Operating operating(*this, OperationKind::scatter, options.timeout);
  operating.root(options.root);
  if (operating.is_root()) {
    operating.give(tensors);
  } else {
    operating.leave_open();
  }
  return operating.run();
}

std::vector<Tensor> CollectiveGroup::all_to_all(const std::vector<Tensor>& tensors,
                                                const CollectiveOptions& options) const {
  Operating operating(*this, OperationKind::all_to_all, options.timeout);
  operating.give(tensors);
  const Tensor whole = operating.run(operating.size());
  return operating.divided(whole);
}

void CollectiveGroup::send(const Tensor& tensor, int to, const CollectiveOptions& options) const {
  Operating operating(*this, OperationKind::send, options.timeout);
  operating.other(to);
  operating.give(tensor);
  operating.send(to);
}

Tensor CollectiveGroup::receive(int from, const CollectiveOptions& options) const {
  Operating operating(*this, OperationKind::receive, options.timeout);
  operating.other(from);
  return operating.receive(from);
}

}  // namespace mobula
