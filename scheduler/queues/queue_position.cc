#include "scheduler/queues/queue_position.h"

#include <limits>

namespace mobula::internal::scheduler {
namespace {

constexpr std::int64_t most_demands = 200'000;  // demands counted for one reply: some 10 ms

constexpr auto last_time = Time::from_ns(std::numeric_limits<std::int64_t>::max());
constexpr auto last_sequence = std::numeric_limits<std::uint64_t>::max();

class Count {
 public:
  explicit Count(const PendingDemands& pending) : pending_(pending) {}

  // Slots that a class still needs; 0 if it can never get one.
  std::int64_t of(const PendingClass& each) {
    if (!pending_.feasible(*each.row) || pending_.never_allowed(each)) return 0;
    std::int64_t slots = 0;
    for (const auto& [rank, demand] : each.waiting) {
      if (is_spent()) break;
      ++examined_;
      slots += demand->wanted - rank.held;
    }
    return slots;
  }
  // Slots that the job of the queue may get; for the requester's job, only those before `rank`.
  std::int64_t of(const WaitQueues::JobQueue& queue, const JobQueueRank* before = nullptr) {
    std::int64_t slots = 0;
    for (const auto& [bucket_key, bucket] : queue.buckets) {
      if (before == nullptr && bucket_key.kind == BucketKey::Kind::quota) continue;
      for (const auto& [rank, each] : bucket.classes) {
        if (is_spent() || (before != nullptr && rank >= *before)) break;
        ++examined_;
        slots += of(*each);
      }
    }
    return slots;
  }
  bool is_spent() const { return examined_ >= most_demands; }

 private:
  const PendingDemands& pending_;
  std::int64_t examined_ = 0;
};

// Counts requests of jobs whose turn is before `turn`.
QueuePosition position_before(const JobTurn& turn, JobId job, const JobQueueRank* rank,
                              const PendingDemands& pending) {
  QueuePosition position;
  Count count(pending);
  pending.queues().for_each([&](const WaitQueues::JobQueue& queue) {
    if (queue.job == job) {
      if (rank != nullptr) position.own_job += count.of(queue, rank);
    } else if (queue.turn < turn) {
      const bool higher = queue.turn.minus_priority < turn.minus_priority;
      (higher ? position.higher_priority : position.smaller_share) += count.of(queue);
    }
    return !count.is_spent();
  });
  position.at_least = count.is_spent();
  return position;
}

}  // namespace

QueuePosition position_of(const ClassKey& key, std::int32_t priority, const PendingDemands& pending,
                          const Groups& groups, const SlotAccounting& accounting) {
  const JobId job = key.first;
  const auto* queue = pending.queues().find(job);
  const auto* waiting = pending.waiting_class(key);
  JobTurn turn{-std::int64_t{accounting.terms(job).priority}, accounting.present_share(job),
               last_time, last_sequence};
  if (queue != nullptr && queue->in_turn) turn = queue->turn;
  JobQueueRank rank{-std::int64_t{priority}, {0, last_time, last_sequence}};
  if (waiting != nullptr) rank = waiting->rank;
  auto position = position_before(turn, job, &rank, pending);
  position.groups = groups.waiting_before(accounting.terms(job).priority);
  return position;
}

QueuePosition position_of(const GroupSpec& spec, const PendingDemands& pending,
                          const Groups& groups, const SlotAccounting& accounting) {
  // Groups precede other work of equal job priority.
  const JobTurn turn{-std::int64_t{accounting.terms(spec.job).priority},
                     std::numeric_limits<std::int64_t>::min(),
                     {},
                     0};
  auto position = position_before(turn, spec.job, nullptr, pending);
  position.groups = groups.waiting_before(spec);
  return position;
}

}  // namespace mobula::internal::scheduler
