#include <gtest/gtest.h>

#include "base/random.h"
#include "worker/core/agents.h"

namespace mobula::internal::worker {
namespace {

const JobId common_job = JobId::of(5);
constexpr std::size_t node_count = 4;
constexpr std::uint64_t object_count = 6;

// Four nodes with two drivers each put, export, borrow, read and release objects in random order,
// while drivers and nodes die and pulls fail.
class RandomHistory {
 public:
  explicit RandomHistory(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < node_count; ++i) world_.add();
    for (std::size_t i = 0; i < node_count; ++i) {
      for (LinkId link = 1; link <= 2; ++link) {
        processes_.push_back({i, link, world_.at(i).driver(link, common_job), true});
      }
    }
    world_.settle();
    // Each object has one owner for the whole run, which exports it before other processes see it.
    for (std::uint64_t i = 0; i < object_count; ++i) {
      owners_.push_back(random_.below(processes_.size()));
      say(processes_[owners_.back()], ExportObject{object(i)});
    }
    world_.settle();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      act();
      if (random_.chance(700)) world_.settle();
      if (random_.chance(200)) world_.advance(Duration(random_.below(3'000'000'000)));
      head_works();
      listen();
    }
  }

  // Every waiting reader has a reply, and after all processes have exited the tables are empty.
  void finish() {
    world_.bytes_flow = true;
    // A reader that waits for a writer of its node waits until that writer seals or releases.
    for (const auto& [who, what] : unsealed_) {
      waiting_.erase({who, what});
      say(processes_[who], ReleaseObject{object(what)});
    }
    for (int i = 0; i < 60; ++i) {
      world_.advance(1s);
      head_works();
      listen();
    }
    for (const auto& [who, what] : waiting_) {
      const bool pending = owner_may_still_make(what);
      EXPECT_TRUE(pending || !processes_[who].alive) << "process " << who << " object " << what;
    }
    for (Process& each : processes_) leave(each);
    for (int i = 0; i < 60; ++i) {
      world_.advance(1s);
      head_works();
    }
    expect_empty(world_, node_count);
  }

 private:
  struct Process {
    std::size_t node;
    LinkId link;
    ProcessId id;
    bool alive;
  };

  struct Write {
    bool seals = true;
    RefRecords contained;
  };
  using Writes = std::map<std::pair<std::size_t, std::uint64_t>, Write>;
  using WriteNode = Writes::node_type;

  static ObjectId object(std::uint64_t number) { return ObjectId::of(500 + number); }
  RefRecord ref(std::uint64_t number) {
    const Process& owner = processes_[owners_[number]];
    return ref_of(object(number), world_.at(owner.node), owner.id);
  }
  void say(const Process& process, ProcessToAgent message) {
    if (process.alive) world_.at(process.node).say(process.link, std::move(message));
  }
  // The owner is alive: the object was never produced, or will be recomputed.
  bool owner_may_still_make(std::uint64_t number) { return processes_[owners_[number]].alive; }

  void act() {
    const std::size_t who = random_.below(processes_.size());
    Process& process = processes_[who];
    const std::uint64_t what = random_.below(object_count);
    const std::uint64_t dice = random_.below(100);
    if (dice < 20) {
      make(who, what);
    } else if (dice < 40) {
      say(process, HoldObjectRequest{ref(what)});
    } else if (dice < 65) {
      if (process.alive) waiting_.insert({who, what});
      say(process, FetchObjectRequest{ref(what), NodeId{}});
    } else if (dice < 85) {
      waiting_.erase({who, what});
      say(process, ReleaseObject{object(what)});
    } else if (dice < 88) {
      waiting_.erase({who, what});
      say(process, CancelFetch{object(what)});
    } else if (dice < 93) {
      world_.bytes_flow = !world_.bytes_flow;
    } else if (dice < 96) {
      world_.finish_pulls(failure(ErrorCode::unavailable, "cut"));
    } else if (dice < 98) {
      leave(process);
    } else if (deaths_ < 2) {
      node_dies(process.node);
    }
  }

  void make(std::size_t who, std::uint64_t what) {
    Process& process = processes_[who];
    const std::uint64_t inner = random_.below(object_count);
    RefRecords contained;
    // References point in one direction, so that no cycle keeps objects alive.
    if (inner > what) contained.push_back(ref(inner));
    const bool seals = !random_.chance(100);
    if (!process.alive) return;
    writes_[{who, what}] = {seals, contained};
    say(process, ReserveObjectRequest{object(what), 1000});
    write_reserved(who);
  }

  // The reply may be late: another process of the node writes the object.
  void write_reserved(std::size_t who) {
    const Process& process = processes_[who];
    for (const auto& reply : world_.at(process.node).received<ReserveObjectReply>(process.link)) {
      for (std::uint64_t what = 0; what < object_count; ++what) {
        const auto write =
            object(what) == reply.object ? writes_.extract({who, what}) : WriteNode();
        if (!write) continue;
        if (!write.mapped().seals) {
          if (!reply.failure) unsealed_.insert({who, what});
          continue;
        }
        const Process& owner = processes_[owners_[what]];
        say(process, SealObjectRequest{object(what), owner.id, world_.at(owner.node).node(), false,
                                       write.mapped().contained});
      }
    }
  }

  void leave(Process& process) {
    if (!std::exchange(process.alive, false)) return;
    world_.at(process.node).step(ProcessLinkLost{process.link});
    world_.settle();
  }

  void node_dies(std::size_t index) {
    Agent& agent = world_.at(index);
    if (!agent.alive) return;
    ++deaths_;
    for (Process& each : processes_) each.alive = each.alive && each.node != index;
    world_.die(agent);
    if (random_.chance(500)) world_.settle();
    world_.announce_death(agent);
  }

  void head_works() {
    for (std::size_t i = 0; i < node_count; ++i) {
      Agent& agent = world_.at(i);
      if (!agent.alive) continue;
      for (const LocateObjectRequest& request : agent.sent<LocateObjectRequest>()) {
        std::vector<NodeId> nodes;
        for (std::size_t j = 0; j < node_count; ++j) {
          Agent& other = world_.at(j);
          if (j == i || !other.alive) continue;
          const ObjectRow* row = other.core().objects().find(request.object);
          if (row != nullptr && row->state == ObjectState::sealed) nodes.push_back(other.node());
        }
        agent.from_head(LocateObjectReply{request.object, nodes});
      }
    }
    world_.settle();
  }

  void listen() {
    for (std::size_t who = 0; who < processes_.size(); ++who) {
      const Process& process = processes_[who];
      Agent& agent = world_.at(process.node);
      write_reserved(who);
      for (const FetchObjectReply& read : agent.received<FetchObjectReply>(process.link)) {
        for (std::uint64_t i = 0; i < object_count; ++i) {
          if (object(i) == read.object) waiting_.erase({who, i});
        }
      }
      for (const UnmapSlabRequest& retired : agent.received<UnmapSlabRequest>(process.link)) {
        say(process, UnmapSlabReply{retired.slab});
      }
    }
  }

  Random random_;
  Agents world_;
  std::vector<Process> processes_;
  std::vector<std::size_t> owners_;
  std::set<std::pair<std::size_t, std::uint64_t>> waiting_;
  std::set<std::pair<std::size_t, std::uint64_t>> unsealed_;
  Writes writes_;  // requested reservations
  int deaths_ = 0;
};

TEST(ObjectHistories, AnswersEveryReaderAndLeavesNothing) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomHistory history(seed);
    history.run(120);
    history.finish();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace mobula::internal::worker
