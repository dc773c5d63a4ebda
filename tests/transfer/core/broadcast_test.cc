// How long one large tensor takes to several processes over simulated links, each process with one network card that
// carries one chunk at a time each way. Time is simulated, so it may be asserted; messages and bytes alone cost it.
#include <gtest/gtest.h>

#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>

#include "transfer/core/region_exchange.h"

namespace mobula::internal::transfer {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct Broadcast {
  int readers = 3;
  std::uint64_t size_bytes = 256 * mib;
  std::uint64_t part_bytes = 0;    // the tensor is given as so many objects; 0: as one
  bool keeps = true;               // readers give it to others
  std::uint64_t chunk_bytes = mib;
  double bytes_per_second = 3.125e9;
  Duration message{50us};
};

class Links {
 public:
  explicit Links(const Broadcast& plan) : plan_(plan) {
    for (int i = 0; i <= plan.readers; ++i) {
      nodes_.push_back(std::make_unique<Node>());
      RegionOptions options;
      if (plan.keeps) options.max_serves_over_network = 1;
      nodes_.back()->exchange = std::make_unique<RegionExchange>(id(i), options);
    }
  }

  // From the first wish until all have all of it, over the time of one copy.
  double copies() {
    const std::uint64_t part = plan_.part_bytes == 0 ? plan_.size_bytes : plan_.part_bytes;
    const auto parts = static_cast<int>(plan_.size_bytes / part);
    for (int i = 0; i < parts; ++i) {
      tell(0, [&](RegionExchange& each, auto& out) { each.publish(now_, object(i), part, 0, out); });
    }
    for (int reader = 1; reader <= plan_.readers; ++reader) {
      std::vector<RegionWish> together;
      for (int i = 0; i < parts; ++i) {
        // Each begins somewhere else.
        const int which = (i + parts * (reader - 1) / plan_.readers) % parts;
        together.push_back({.object = object(which), .size_bytes = part, .holders = {id(0)}, .paths = {DirectPath::tcp}, .keeps = plan_.keeps});
      }
      tell(reader, [&](RegionExchange& each, auto& out) { EXPECT_TRUE(each.want(now_, together, true, out).ok()); });
    }
    while (!events_.empty()) {
      const auto event = events_.top();
      events_.pop();
      now_ = event.at;
      event.what();
    }
    EXPECT_EQ(arrived_, parts * plan_.readers);
    return seconds(last_arrival_ - Time()) / (static_cast<double>(plan_.size_bytes) / plan_.bytes_per_second);
  }
  double sent_by_maker() const { return static_cast<double>(sent_.at(0)) / static_cast<double>(plan_.size_bytes); }

 private:
  struct Node {
    std::unique_ptr<RegionExchange> exchange;
    bool sends = false, receives = false;
  };
  struct Flow {
    int from = 0, to = 0;
    OperationId operation = 0;
    std::uint64_t left = 0;
  };
  struct Event {
    Time at;
    std::uint64_t number = 0;
    std::function<void()> what;
    friend bool operator<(const Event& a, const Event& b) { return std::pair(b.at, b.number) < std::pair(a.at, a.number); }
  };

  static ProcessId id(int node) { return ProcessId::of(static_cast<unsigned>(node + 1)); }
  static ObjectId object(int part) { return ObjectId::of(static_cast<unsigned>(part + 1)); }
  static int node_of(ProcessId process) { return static_cast<int>(process.bits().low) - 1; }
  static double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

  void after(Duration span, std::function<void()> what) { events_.push({now_ + span, ++numbers_, std::move(what)}); }

  void tell(int node, const std::function<void(RegionExchange&, std::vector<RegionCommand>&)>& what) {
    std::vector<RegionCommand> out;
    what(*nodes_[static_cast<std::size_t>(node)]->exchange, out);
    for (auto& command : out) act(node, command);
  }

  void act(int node, RegionCommand& command) {
    if (const auto* said = std::get_if<SendRegions>(&command)) {
      after(plan_.message, [this, from = id(node), said = *said] {
        tell(node_of(said.to), [&](RegionExchange& each, auto& out) { each.heard(now_, from, said.message, out); });
      });
    } else if (const auto* made = std::get_if<Export>(&command)) {
      after(Duration(0), [this, node, made = *made] {
        tell(node, [&](RegionExchange& each, auto& out) { each.exported(now_, made.operation, std::to_string(node), out); });
      });
    } else if (const auto* back = std::get_if<Unexport>(&command)) {
      after(Duration(0), [this, node, operation = back->operation] {
        tell(node, [&](RegionExchange& each, auto& out) { each.ended(now_, operation, std::nullopt, out); });
      });
    } else if (const auto* reads = std::get_if<Fetch>(&command)) {
      const std::uint64_t size = plan_.part_bytes == 0 ? plan_.size_bytes : plan_.part_bytes;
      flows_.push_back({node_of(reads->holder), node, reads->operation, size});
      go_on();
    } else if (const auto* ended = std::get_if<PullEnded>(&command)) {
      EXPECT_TRUE(std::holds_alternative<RegionsHere>(ended->outcome));
      ++arrived_;
      last_arrival_ = now_;
    }
  }

  // Every card that is free takes the next chunk, in turn.
  void go_on() {
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      Flow flow = flows_.front();
      flows_.pop_front();
      Node& from = *nodes_[static_cast<std::size_t>(flow.from)];
      Node& to = *nodes_[static_cast<std::size_t>(flow.to)];
      if (from.sends || to.receives) {
        flows_.push_back(flow);
        continue;
      }
      from.sends = to.receives = true;
      const std::uint64_t chunk = std::min(flow.left, plan_.chunk_bytes);
      const auto span = Duration(static_cast<std::int64_t>(static_cast<double>(chunk) / plan_.bytes_per_second * 1e9));
      after(span, [this, flow, chunk]() mutable {
        nodes_[static_cast<std::size_t>(flow.from)]->sends = nodes_[static_cast<std::size_t>(flow.to)]->receives = false;
        sent_[flow.from] += chunk;
        flow.left -= chunk;
        if (flow.left > 0) {
          flows_.push_back(flow);
        } else {
          tell(flow.to, [&](RegionExchange& each, auto& out) { each.ended(now_, flow.operation, std::nullopt, out); });
        }
        go_on();
      });
    }
  }

  const Broadcast plan_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::deque<Flow> flows_;
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0;
  Time now_{};
  Time last_arrival_{};
  int arrived_ = 0;
  std::map<int, std::uint64_t> sent_;
};

double copies_of(const char* what, const Broadcast& plan) {
  Links links(plan);
  const double copies = links.copies();
  std::printf("  %s: %d readers have it after %.2f copies; its maker has sent %.2f\n", what, plan.readers, copies, links.sent_by_maker());
  return copies;
}

// 256 MiB to three and to fifteen readers. A tensor is one object: a reader gives it on when it has all of it.
TEST(TensorBroadcast, AWholeTensorTakesATreeOfCopies) {
  EXPECT_NEAR(copies_of("whole, nobody keeps it", {.keeps = false}), 3, 0.1);
  EXPECT_LT(copies_of("whole", {}), 2.1);
  EXPECT_LT(copies_of("whole", {.readers = 15}), 6.2);
}

// The same where it is cut into objects of 8 MiB, of which each reader begins with others: readers give on what they have.
TEST(TensorBroadcast, APartedTensorTakesLittleMoreThanOneCopy) {
  EXPECT_LT(copies_of("parts of 8 MiB", {.part_bytes = 8 * mib}), 1.5);
  EXPECT_LT(copies_of("parts of 8 MiB", {.readers = 15, .part_bytes = 8 * mib}), 2.8);
  EXPECT_LT(copies_of("parts of 8 MiB, messages of 5 ms", {.part_bytes = 8 * mib, .message = 5ms}), 3);
}

}  // namespace
}  // namespace mobula::internal::transfer
