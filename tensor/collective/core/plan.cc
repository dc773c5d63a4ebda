#include "tensor/collective/core/plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace mobula::internal::collective {
namespace {

constexpr std::size_t ring_slots = 4;

// Range of elements divided among members as evenly as possible.
class Parts {
 public:
  Parts(std::size_t elements, std::size_t item, std::size_t members)
      : elements_(elements), item_(item), members_(members) {}
  std::size_t offset(std::size_t part) const {
    const std::size_t each = elements_ / members_;
    const std::size_t more = elements_ % members_;
    return (part * each + std::min(part, more)) * item_;
  }
  std::size_t length(std::size_t part) const { return offset(part + 1) - offset(part); }

 private:
  std::size_t elements_;
  std::size_t item_;
  std::size_t members_;
};

// A chunk of another member that is reduced with this member's elements.
struct ReceivedChunk {
  BufferPosition landing;
  BufferPosition own;
  BufferPosition target;
  std::size_t length = 0;
  std::uint32_t received = 0;                // step that receives it
  std::optional<std::uint32_t> last_send{};  // step that last sends from the target's memory
  bool is_complete = false;                  // no other member adds to the result
};

class Author {
 public:
  Author(const Operation& operation, std::uint32_t rank, std::uint32_t members,
         const PlanOptions& options)
      : operation_(operation),
        options_(options),
        rank_(rank),
        members_(members),
        item_(item_bytes(operation.dtype)),
        elements_(static_cast<std::size_t>(operation.elements())),
        bytes_(static_cast<std::size_t>(operation.bytes())) {}

  Plan write();

 private:
  std::uint32_t add(Step step) {
    plan_.steps.push_back(step);
    return static_cast<std::uint32_t>(plan_.steps.size() - 1);
  }
  std::uint32_t send(std::uint32_t peer, BufferPosition from, std::size_t length,
                     std::uint32_t after = 0, std::uint32_t count = 0) {
    return add(Step{StepKind::send, peer, from, {}, {}, length, 0, after, count, false});
  }
  std::uint32_t receive(std::uint32_t peer, BufferPosition to, std::size_t length,
                        std::uint32_t after = 0, std::uint32_t count = 0) {
    return add(Step{StepKind::receive, peer, {}, to, {}, length, 0, after, count, false});
  }
  void copy(BufferPosition from, BufferPosition to, std::size_t length) {
    if (length != 0) add(Step{StepKind::copy, 0, from, to, {}, length, 0, 0, 0, false});
  }
  std::uint32_t next() const { return static_cast<std::uint32_t>(plan_.steps.size()); }
  std::uint32_t peer_after(std::uint32_t distance) const { return (rank_ + distance) % members_; }
  std::size_t chunk() const {
    return std::max(options_.chunk_bytes / item_, std::size_t{1}) * item_;
  }
  // Chunk size for which the slots for all other members fit into the scratch limit.
  std::size_t chunk_from_all() const {
    const std::size_t free =
        std::max(options_.most_scratch / (2 * members_) / item_, std::size_t{1}) * item_;
    return std::min(chunk(), free);
  }
  bool in_ring() const { return bytes_ >= options_.ring_from && members_ > 2 && item_ > 2; }

  void broadcast();
  void broadcast_tree();
  void broadcast_chain();
  void ring_reduce(const Parts& parts, bool gather);
  void ring_gather(const Parts& parts, std::vector<std::uint32_t> ready);
  std::uint32_t combine(const ReceivedChunk& chunk);
  std::uint32_t rank_before(std::uint32_t back) const {
    return (rank_ + 2 * members_ - back) % members_;
  }
  std::size_t longest_of(const Parts& parts) const {
    std::size_t longest = 0;
    for (std::uint32_t part = 0; part < members_; ++part)
      longest = std::max(longest, parts.length(part));
    return longest;
  }
  // Number of chunks in which the longer one of two parts travels.
  std::size_t chunks_of(const Parts& parts, std::uint32_t a, std::uint32_t b) const {
    return (std::max(parts.length(a), parts.length(b)) + chunk() - 1) / chunk();
  }
  void reduce_from_all(const Parts& parts, bool gather);
  void reduce_scatter();
  void reduce();
  void all_gather();
  void gather();
  void scatter();
  void all_to_all();
  void send_chunks(std::uint32_t peer, BufferPosition from, std::size_t length);
  void receive_chunks(std::uint32_t peer, BufferPosition to, std::size_t length);

  const Operation& operation_;
  const PlanOptions& options_;
  const std::uint32_t rank_;
  const std::uint32_t members_;
  const std::size_t item_;
  const std::size_t elements_;
  const std::size_t bytes_;
  Plan plan_;
};

void Author::send_chunks(std::uint32_t peer, BufferPosition from, std::size_t length) {
  if (length != 0) send(peer, from, length);
}

void Author::receive_chunks(std::uint32_t peer, BufferPosition to, std::size_t length) {
  if (length != 0) receive(peer, to, length);
}

// ---- broadcast ----------------------------------------------------------------------------------

void Author::broadcast() {
  if (rank_ == operation_.root) copy({Area::input, 0}, {Area::output, 0}, bytes_);
  if (bytes_ == 0) return;
  if (bytes_ >= options_.chain_from && members_ > 2) return broadcast_chain();
  broadcast_tree();
}

// Ranks are counted from the root. In each round, every member that has the data sends it to one
// more.
void Author::broadcast_tree() {
  const std::uint32_t own = (rank_ + members_ - operation_.root) % members_;
  const auto rank_of = [&](std::uint32_t counted) {
    return (counted + operation_.root) % members_;
  };
  std::uint32_t reach = 1;
  std::uint32_t received = 0;
  std::uint32_t count = 0;
  if (own != 0) {
    while (reach * 2 <= own) reach *= 2;
    received = receive(rank_of(own - reach), {Area::output, 0}, bytes_);
    count = 1;
    reach *= 2;
  }
  for (; own + reach < members_; reach *= 2) {
    const BufferPosition from =
        own == 0 ? BufferPosition{Area::input, 0} : BufferPosition{Area::output, 0};
    send(rank_of(own + reach), from, bytes_, received, count);
  }
}

void Author::broadcast_chain() {
  const std::uint32_t own = (rank_ + members_ - operation_.root) % members_;
  const bool last = own + 1 == members_;
  for (std::size_t at = 0; at < bytes_; at += chunk()) {
    const std::size_t length = std::min(chunk(), bytes_ - at);
    if (own == 0) {
      send(peer_after(1), {Area::input, at}, length);
      continue;
    }
    const auto received = receive(peer_after(members_ - 1), {Area::output, at}, length);
    if (!last) send(peer_after(1), {Area::output, at}, length, received, 1);
  }
}

// ---- reductions ---------------------------------------------------------------------------------

// Returns the step that writes the result to the target.
std::uint32_t Author::combine(const ReceivedChunk& chunk) {
  std::uint32_t count = 1;
  if (chunk.last_send) {
    const auto cleared = add(Step{StepKind::copy, 0, {}, {}, {}, 0, 0, *chunk.last_send, 1, false});
    count = cleared - chunk.received + 1;
  }
  return add(Step{StepKind::combine, 0, chunk.landing, chunk.target, chunk.own, chunk.length, 0,
                  chunk.received, count, chunk.is_complete});
}

// Part p starts at rank p+1, is reduced by each rank in turn, and is complete at rank p. With
// `gather` all parts then travel around the ring once more. Without it, `output` is only this
// member's part.
void Author::ring_reduce(const Parts& parts, bool gather) {
  const std::uint32_t to = peer_after(1);
  const std::uint32_t from = peer_after(members_ - 1);
  const std::size_t size = chunk();
  plan_.scratch_bytes = ring_slots * size;
  std::vector<std::uint32_t> slot_free(ring_slots, 0);  // step that frees the slot, plus one
  std::size_t slot = 0;
  // Partial results are stored in the output if it holds all parts, otherwise after the slots.
  const std::size_t travelling = plan_.scratch_bytes;
  const std::size_t longest = longest_of(parts);
  if (!gather) plan_.scratch_bytes += 2 * longest;
  const auto partial = [&](std::uint32_t part, std::uint32_t round) {
    if (gather) return BufferPosition{Area::output, parts.offset(part)};
    if (part == rank_) return BufferPosition{Area::output, 0};
    return BufferPosition{Area::scratch, travelling + (round % 2) * longest};
  };
  std::vector<std::uint32_t> ready;        // by chunk: the step after which it may be forwarded
  std::vector<std::uint32_t> sent_before;  // by chunk: last send from the same memory
  for (std::uint32_t round = 0; round + 1 < members_; ++round) {
    const std::uint32_t sends = rank_before(round + 1);
    const std::uint32_t takes = rank_before(round + 2);
    std::vector<std::uint32_t> sent_now;
    std::vector<std::uint32_t> ready_now;
    const std::size_t chunks = chunks_of(parts, sends, takes);
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t at = i * size;
      if (at < parts.length(sends)) {
        const std::size_t length = std::min(size, parts.length(sends) - at);
        if (round == 0) {
          sent_now.push_back(send(to, {Area::input, parts.offset(sends) + at}, length));
        } else {
          BufferPosition position = partial(sends, round - 1);
          position.offset += at;
          sent_now.push_back(send(to, position, length, ready[i], 1));
        }
      }
      if (at >= parts.length(takes)) continue;
      const std::size_t length = std::min(size, parts.length(takes) - at);
      const BufferPosition landing{Area::scratch, slot * size};
      const auto received = slot_free[slot] == 0
                                ? receive(from, landing, length)
                                : receive(from, landing, length, slot_free[slot] - 1, 1);
      BufferPosition target = partial(takes, round);
      target.offset += at;
      // Memory of partial results is reused two rounds later, after the sends from it have
      // completed.
      const bool reuses = !gather && i < sent_before.size();
      const auto last_send = reuses ? std::optional(sent_before[i]) : std::nullopt;
      const BufferPosition own{Area::input, parts.offset(takes) + at};
      const auto combined =
          combine({landing, own, target, length, received, last_send, round + 2 == members_});
      ready_now.push_back(combined);
      slot_free[slot] = combined + 1;
      slot = (slot + 1) % ring_slots;
    }
    ready = std::move(ready_now);
    sent_before = std::move(sent_now);
  }
  if (gather) ring_gather(parts, std::move(ready));
}

// Sends the complete parts around the ring. `ready`: by chunk of this member's part, the step after
// which it may be sent.
void Author::ring_gather(const Parts& parts, std::vector<std::uint32_t> ready) {
  const std::uint32_t to = peer_after(1);
  const std::uint32_t from = peer_after(members_ - 1);
  const std::size_t size = chunk();
  for (std::uint32_t round = 0; round + 1 < members_; ++round) {
    const std::uint32_t sends = rank_before(round);
    const std::uint32_t takes = rank_before(round + 1);
    std::vector<std::uint32_t> ready_now;
    const std::size_t chunks = chunks_of(parts, sends, takes);
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t at = i * size;
      if (at < parts.length(sends)) {
        send(to, {Area::output, parts.offset(sends) + at}, std::min(size, parts.length(sends) - at),
             ready[i], 1);
      }
      if (at < parts.length(takes)) {
        ready_now.push_back(receive(from, {Area::output, parts.offset(takes) + at},
                                    std::min(size, parts.length(takes) - at)));
      }
    }
    ready = std::move(ready_now);
  }
}

// Each member reduces its own part. With `gather` each part is then sent to all, one chunk behind.
void Author::reduce_from_all(const Parts& parts, bool gather) {
  const std::size_t size = chunk_from_all();
  const std::size_t stage = (members_ - 1) * size;
  plan_.scratch_bytes = 2 * stage;
  const std::size_t longest = longest_of(parts);
  const std::size_t chunks = (longest + size - 1) / size;
  const auto piece = [&](std::uint32_t part, std::size_t i) {
    const std::size_t at = i * size;
    return at < parts.length(part) ? std::min(size, parts.length(part) - at) : 0;
  };
  std::vector<std::uint32_t> folded(chunks, 0);
  const auto spread = [&](std::size_t i) {
    for (std::uint32_t distance = 1; distance < members_; ++distance) {
      const std::uint32_t peer = peer_after(distance);
      if (piece(rank_, i) != 0) {
        send(peer, {Area::output, parts.offset(rank_) + i * size}, piece(rank_, i), folded[i], 1);
      }
    }
    for (std::uint32_t distance = 1; distance < members_; ++distance) {
      const std::uint32_t peer = peer_after(members_ - distance);
      if (piece(peer, i) != 0)
        receive(peer, {Area::output, parts.offset(peer) + i * size}, piece(peer, i));
    }
  };
  for (std::size_t i = 0; i < chunks; ++i) {
    for (std::uint32_t distance = 1; distance < members_; ++distance) {
      const std::uint32_t peer = peer_after(distance);
      if (piece(peer, i) != 0)
        send(peer, {Area::input, parts.offset(peer) + i * size}, piece(peer, i));
    }
    if (const std::size_t length = piece(rank_, i); length != 0) {
      const std::size_t slots = (i % 2) * stage;
      const std::uint32_t first = next();
      for (std::uint32_t distance = 1; distance < members_; ++distance) {
        const std::uint32_t peer = peer_after(members_ - distance);
        const std::uint32_t slot = peer < rank_ ? peer : peer - 1;
        receive(peer, {Area::scratch, slots + slot * size}, length, i >= 2 ? folded[i - 2] : 0,
                i >= 2 ? 1 : 0);
      }
      const BufferPosition target{Area::output, (gather ? parts.offset(rank_) : 0) + i * size};
      folded[i] = add(Step{StepKind::fold,
                           0,
                           {Area::input, parts.offset(rank_) + i * size},
                           target,
                           {Area::scratch, slots},
                           length,
                           size,
                           first,
                           next() - first,
                           true});
    }
    if (gather && i > 0) spread(i - 1);
  }
  if (gather && chunks > 0) spread(chunks - 1);
}

void Author::reduce_scatter() {
  const Parts parts(elements_, item_, members_);
  if (in_ring()) return ring_reduce(parts, false);
  reduce_from_all(parts, false);
}

// Each member reduces one part, and the root gathers the parts.
void Author::reduce() {
  const Parts parts(elements_, item_, members_);
  const std::size_t whole = parts.length(rank_);
  const bool is_root = rank_ == operation_.root;
  // Other ranks have no output: they reduce their part in scratch memory after the area of the
  // reduction.
  if (in_ring()) {
    ring_reduce(parts, false);
  } else {
    reduce_from_all(parts, false);
  }
  const std::size_t own = plan_.scratch_bytes;
  const BufferPosition target = is_root ? BufferPosition{Area::output, parts.offset(rank_)}
                                        : BufferPosition{Area::scratch, own};
  if (!is_root) plan_.scratch_bytes += whole;
  for (Step& step : plan_.steps) {
    if (step.kind != StepKind::combine && step.kind != StepKind::fold) continue;
    if (step.to.area == Area::output) step.to = {target.area, target.offset + step.to.offset};
  }
  const std::uint32_t all = next();
  if (!is_root) {
    if (whole != 0) send(operation_.root, target, whole, 0, all);
    return;
  }
  for (std::uint32_t distance = 1; distance < members_; ++distance) {
    const std::uint32_t peer = peer_after(distance);
    receive_chunks(peer, {Area::output, parts.offset(peer)}, parts.length(peer));
  }
}

// ---- operations without reduction ---------------------------------------------------------------

void Author::all_gather() {
  copy({Area::input, 0}, {Area::output, rank_ * bytes_}, bytes_);
  if (bytes_ == 0) return;
  if (bytes_ * members_ < options_.ring_from || members_ <= 2) {
    for (std::uint32_t distance = 1; distance < members_; ++distance) {
      send_chunks(peer_after(distance), {Area::input, 0}, bytes_);
    }
    for (std::uint32_t distance = 1; distance < members_; ++distance) {
      const std::uint32_t peer = peer_after(members_ - distance);
      receive_chunks(peer, {Area::output, peer * bytes_}, bytes_);
    }
    return;
  }
  const std::size_t size = chunk();
  const std::size_t chunks = (bytes_ + size - 1) / size;
  std::vector<std::uint32_t> ready(chunks, 0);
  for (std::uint32_t round = 0; round + 1 < members_; ++round) {
    const std::uint32_t sends = (rank_ + members_ - round) % members_;
    const std::uint32_t takes = (rank_ + 2 * members_ - round - 1) % members_;
    std::vector<std::uint32_t> ready_now;
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t at = i * size;
      const std::size_t length = std::min(size, bytes_ - at);
      if (round == 0) {
        send(peer_after(1), {Area::input, at}, length);
      } else {
        send(peer_after(1), {Area::output, sends * bytes_ + at}, length, ready[i], 1);
      }
      ready_now.push_back(
          receive(peer_after(members_ - 1), {Area::output, takes * bytes_ + at}, length));
    }
    ready = std::move(ready_now);
  }
}

void Author::gather() {
  if (rank_ != operation_.root) return send_chunks(operation_.root, {Area::input, 0}, bytes_);
  copy({Area::input, 0}, {Area::output, rank_ * bytes_}, bytes_);
  for (std::uint32_t distance = 1; distance < members_; ++distance) {
    const std::uint32_t peer = peer_after(distance);
    receive_chunks(peer, {Area::output, peer * bytes_}, bytes_);
  }
}

void Author::scatter() {
  if (rank_ != operation_.root) return receive_chunks(operation_.root, {Area::output, 0}, bytes_);
  copy({Area::input, rank_ * bytes_}, {Area::output, 0}, bytes_);
  for (std::uint32_t distance = 1; distance < members_; ++distance) {
    const std::uint32_t peer = peer_after(distance);
    send_chunks(peer, {Area::input, peer * bytes_}, bytes_);
  }
}

void Author::all_to_all() {
  copy({Area::input, rank_ * bytes_}, {Area::output, rank_ * bytes_}, bytes_);
  for (std::uint32_t distance = 1; distance < members_; ++distance) {
    const std::uint32_t to = peer_after(distance);
    const std::uint32_t from = peer_after(members_ - distance);
    send_chunks(to, {Area::input, to * bytes_}, bytes_);
    receive_chunks(from, {Area::output, from * bytes_}, bytes_);
  }
}

Plan Author::write() {
  const bool reduces = operation_.kind == OperationKind::all_reduce ||
                       operation_.kind == OperationKind::reduce ||
                       operation_.kind == OperationKind::reduce_scatter;
  if (reduces && operation_.reduce == ReduceKind::average) plan_.scale = 1.0 / members_;
  if (members_ == 1) {
    copy({Area::input, 0}, {Area::output, 0}, input_bytes(operation_, rank_, members_));
    return std::move(plan_);
  }
  switch (operation_.kind) {
    case OperationKind::broadcast: broadcast(); break;
    case OperationKind::all_reduce: {
      const Parts parts(elements_, item_, members_);
      if (in_ring()) {
        ring_reduce(parts, true);
      } else {
        reduce_from_all(parts, true);
      }
      break;
    }
    case OperationKind::reduce: reduce(); break;
    case OperationKind::reduce_scatter: reduce_scatter(); break;
    case OperationKind::all_gather: all_gather(); break;
    case OperationKind::gather: gather(); break;
    case OperationKind::scatter: scatter(); break;
    case OperationKind::all_to_all: all_to_all(); break;
    default: break;
  }
  return std::move(plan_);
}

}  // namespace

Plan make_plan(const Operation& operation, std::uint32_t rank, std::uint32_t members,
               const PlanOptions& options) {
  MOBULA_CHECK(rank < members, "a rank is one of the members");
  return Author(operation, rank, members, options).write();
}

std::size_t input_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members) {
  const auto bytes = static_cast<std::size_t>(operation.bytes());
  switch (operation.kind) {
    case OperationKind::barrier: return 0;
    case OperationKind::broadcast: return rank == operation.root ? bytes : 0;
    case OperationKind::scatter: return rank == operation.root ? bytes * members : 0;
    case OperationKind::all_to_all: return bytes * members;
    default: return bytes;
  }
}

std::size_t output_bytes(const Operation& operation, std::uint32_t rank, std::uint32_t members) {
  const auto bytes = static_cast<std::size_t>(operation.bytes());
  switch (operation.kind) {
    case OperationKind::barrier: return 0;
    case OperationKind::reduce: return rank == operation.root ? bytes : 0;
    case OperationKind::gather: return rank == operation.root ? bytes * members : 0;
    case OperationKind::all_gather:
    case OperationKind::all_to_all: return bytes * members;
    case OperationKind::reduce_scatter: return bytes / members;
    default: return bytes;
  }
}

}  // namespace mobula::internal::collective
