// Time to send a large tensor to several processes over simulated links. Each process has one
// network card that carries one chunk at a time per direction. Chunks are requested in the order of
// `order_of_parts`. Time is simulated, so results are exact on any machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>

#include "tensor/exchange/core/tensor_chunks.h"
#include "tensor/exchange/core/tensor_exchange_core.h"

namespace mobula::internal::transfer {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct Broadcast {
  int readers = 3;
  std::uint64_t size_bytes = 256 * mib;
  // bytes per chunk that readers keep and relay; 0: the tensor is pulled whole
  std::uint64_t chunk_bytes = 0;
  std::uint64_t step_bytes = mib;
  double bytes_per_second = 3.125e9;
  Duration message{50us};
  std::uint64_t seed = 1;  // seed for the process ids
};

class Links {
 public:
  explicit Links(const Broadcast& plan) : plan_(plan) {
    for (int i = 0; i <= plan.readers; ++i) {
      nodes_.push_back(std::make_unique<Node>());
      RegionOptions options;
      if (plan.chunk_bytes > 0) options.chunk_bytes = plan.chunk_bytes;
      nodes_.back()->exchange = std::make_unique<TensorExchangeCore>(id(i), options);
    }
  }

  // Time from the first request until all readers have the tensor, divided by the time of one copy.
  double copies() {
    const bool in_parts = plan_.chunk_bytes > 0;
    const std::uint32_t parts = in_parts ? parts_of(plan_.size_bytes, plan_.chunk_bytes) : 1;
    tell(0, [&](TensorExchangeCore& each, auto& out) {
      each.register_tensor(now_, object, plan_.size_bytes, 0, out);
    });
    for (int reader = 1; reader <= plan_.readers; ++reader) {
      std::vector<TensorRequest> together;
      for (const auto part :
           in_parts ? order_of_parts(parts, id(reader)) : std::vector<std::uint32_t>{0}) {
        together.push_back({.object = object,
                            .size_bytes = plan_.size_bytes,
                            .holders = {id(0)},
                            .paths = {DirectPath::tcp},
                            .part = part,
                            .keeps = in_parts});
      }
      tell(reader, [&](TensorExchangeCore& each, auto& out) {
        const auto order = together;
        const auto pulls = each.pull(now_, std::move(together), true, out);
        ASSERT_TRUE(pulls.ok());
        for (std::size_t i = 0; i < order.size(); ++i)
          nodes_[static_cast<std::size_t>(reader)]->parts[(*pulls)[i]] = order[i].part;
      });
    }
    while (!events_.empty()) {
      const auto event = events_.top();
      events_.pop();
      now_ = event.at;
      event.what();
    }
    EXPECT_EQ(arrived_, static_cast<int>(parts) * plan_.readers);
    return seconds(last_arrival_ - Time()) /
           (static_cast<double>(plan_.size_bytes) / plan_.bytes_per_second);
  }
  double sent_by_maker() const {
    return static_cast<double>(sent_.at(0)) / static_cast<double>(plan_.size_bytes);
  }

 private:
  struct Node {
    std::unique_ptr<TensorExchangeCore> exchange;
    std::map<RegionPullId, std::uint32_t> parts{};
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
    friend bool operator<(const Event& a, const Event& b) {
      return std::pair(b.at, b.number) < std::pair(a.at, a.number);
    }
  };

  static inline const ObjectId object = ObjectId::of(7);
  // Random ids, as in production.
  ProcessId id(int node) const {
    return ProcessId::derived(ProcessId(), "node", plan_.seed * 1000 + static_cast<unsigned>(node));
  }
  int node_of(ProcessId process) const {
    int node = 0;
    while (id(node) != process) ++node;
    return node;
  }
  static double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

  void after(Duration span, std::function<void()> what) {
    events_.push({now_ + span, ++numbers_, std::move(what)});
  }

  void tell(int node,
            const std::function<void(TensorExchangeCore&, std::vector<RegionCommand>&)>& what) {
    std::vector<RegionCommand> out;
    what(*nodes_[static_cast<std::size_t>(node)]->exchange, out);
    for (auto& command : out) act(node, command);
  }

  void act(int node, RegionCommand& command) {
    if (const auto* said = std::get_if<SendRegions>(&command)) {
      after(plan_.message, [this, from = id(node), said = *said] {
        tell(node_of(said.to),
             [&](TensorExchangeCore& each, auto& out) { each.on(now_, from, said.message, out); });
      });
    } else if (const auto* made = std::get_if<OfferTensor>(&command)) {
      after(Duration(0), [this, node, made = *made] {
        tell(node, [&](TensorExchangeCore& each, auto& out) {
          each.exported(now_, made.operation, std::to_string(node), out);
        });
      });
    } else if (const auto* back = std::get_if<WithdrawOffer>(&command)) {
      after(Duration(0), [this, node, operation = back->operation] {
        tell(node, [&](TensorExchangeCore& each, auto& out) {
          each.ended(now_, operation, std::nullopt, out);
        });
      });
    } else if (const auto* reads = std::get_if<PullChunk>(&command)) {
      const auto part = nodes_[static_cast<std::size_t>(node)]->parts.at(reads->pull);
      const std::uint64_t size = span_of(plan_.size_bytes, plan_.chunk_bytes, part).size_bytes;
      flows_.push_back({node_of(reads->holder), node, reads->operation, size});
      go_on();
    } else if (const auto* replica_holder = std::get_if<Reach>(&command)) {
      after(2 * plan_.message, [this, node, replica_holder = *replica_holder] {
        tell(node, [&](TensorExchangeCore& each, auto& out) {
          each.reached(now_, replica_holder.pull, replica_holder.replica_holder, {DirectPath::tcp},
                       out);
        });
      });
    } else if (const auto* ended = std::get_if<PullEnded>(&command)) {
      EXPECT_TRUE(std::holds_alternative<RegionsHere>(ended->outcome));
      ++arrived_;
      last_arrival_ = now_;
    }
  }

  // Each free card takes the next chunk, in rotation.
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
      const std::uint64_t chunk = std::min(flow.left, plan_.step_bytes);
      const auto span = Duration(
          static_cast<std::int64_t>(static_cast<double>(chunk) / plan_.bytes_per_second * 1e9));
      after(span, [this, flow, chunk]() mutable {
        nodes_[static_cast<std::size_t>(flow.from)]->sends =
            nodes_[static_cast<std::size_t>(flow.to)]->receives = false;
        sent_[flow.from] += chunk;
        flow.left -= chunk;
        if (flow.left > 0) {
          flows_.push_back(flow);
        } else {
          tell(flow.to, [&](TensorExchangeCore& each, auto& out) {
            each.ended(now_, flow.operation, std::nullopt, out);
          });
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

// Maximum over several histories, which differ in the first chunks of the readers.
double copies_of(const char* what, Broadcast plan) {
  double most = 0, sum = 0, sent = 0;
  constexpr std::uint64_t histories = 5;
  for (plan.seed = 1; plan.seed <= histories; ++plan.seed) {
    Links links(plan);
    const double copies = links.copies();
    sum += copies;
    most = std::max(most, copies);
    sent = std::max(sent, links.sent_by_maker());
  }
  std::printf(
      "  %s: %d readers have it after %.2f copies, %.2f at most; its maker has sent at most %.2f\n",
      what, plan.readers, sum / histories, most, sent);
  return most;
}

// 256 MiB to three and to fifteen readers. The producer sends a whole tensor to each reader.
TEST(TensorBroadcast, SendsWholeTensorToEachReader) { EXPECT_NEAR(copies_of("whole", {}), 3, 0.1); }

// With chunks, each reader starts at different chunks, and readers relay the chunks that they have.
TEST(TensorBroadcast, ChunkedTensor_NeedsLittleMoreThanOneCopy) {
  EXPECT_LT(copies_of("parts of 8 MiB", {.chunk_bytes = 8 * mib}), 1.3);
  EXPECT_LT(copies_of("parts of 8 MiB", {.readers = 15, .chunk_bytes = 8 * mib}), 2.3);
  EXPECT_LT(copies_of("a GiB", {.size_bytes = 1024 * mib, .chunk_bytes = 8 * mib}), 1.3);
  EXPECT_LT(copies_of("parts of 8 MiB, messages of 5 ms", {.chunk_bytes = 8 * mib, .message = 5ms}),
            2.5);
}

}  // namespace
}  // namespace mobula::internal::transfer
