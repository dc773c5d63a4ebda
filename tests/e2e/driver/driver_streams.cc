// Streaming calls between nodes, and the loss of the node of a producer.
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {
namespace streaming {

using std::chrono::seconds;

constexpr int count = 24;
constexpr int large = 50'000;  // elements of every second item, above the limit for messages

using Item = std::vector<int>;

Item item_of(int index) { return Item(index % 2 == 0 ? 1 : large, index); }

mobula::generator<Item> items(int end) {
  for (int i = 0; i < end; ++i) co_yield item_of(i);
}

int sum_of_sizes(mobula::ObjectRefStream<Item> stream) {
  std::size_t sum = 0;
  for (const auto& ref : stream) sum += mobula::get(ref).size();
  return static_cast<int>(sum);
}

mobula::NodeAffinity at(const std::string& node) { return {.node_id = node, .soft = true}; }

// The node with the producer and a consumer is killed when the driver has taken some items.
int streams(const Words& words) {
  const std::string& node = words.at(0);
  Report report;
  const int sizes = count / 2 * (1 + large);
  auto far = mobula::task<items>.options({.scheduling = at(node)}).remote(count);
  const auto there = mobula::task<sum_of_sizes>.options({.scheduling = at(node)}).remote(far);
  report.equal("sizes at the other node", mobula::get(there, seconds(60)), sizes);
  auto near = mobula::task<items>.remote(count);
  const auto across = mobula::task<sum_of_sizes>.options({.scheduling = at(node)}).remote(near);
  report.equal("sizes across nodes", mobula::get(across, seconds(60)), sizes);

  auto stream =
      mobula::task<items>.options({.scheduling = at(node), .stream_window = 4}).remote(count);
  std::vector<mobula::ObjectRef<Item>> taken;
  for (int i = 0; i < count / 2; ++i) taken.push_back(*stream.next(seconds(60)));
  auto again = stream;
  const auto sum = mobula::task<sum_of_sizes>.options({.scheduling = at(node)}).remote(again);
  again = {};
  tell("ready");
  hear();
  for (int i = 0; i < count / 2; ++i) {
    report.holds("item taken before",
                 mobula::get(taken[static_cast<std::size_t>(i)], seconds(60)) == item_of(i));
  }
  int next = count / 2;
  while (const auto ref = stream.next(seconds(60))) {
    report.holds("item taken after", mobula::get(*ref, seconds(60)) == item_of(next++));
  }
  report.equal("items", next, count);
  report.equal("sizes of the second half", mobula::get(sum, seconds(60)), sizes / 2);
  return report.exit_code();
}

mobula::generator<Item> endless() {
  for (int i = 0;; ++i) co_yield item_of(i);
}
// Reads two items and keeps the stream.
int stops_reading(mobula::ObjectRefStream<Item> stream) {
  for (int i = 0; i < 2; ++i) mobula::get(*stream.next());
  while (!mobula::current().cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return 0;
}

// Blocked producers, a reader that stopped in another process, a queue, and a callback that blocks.
// The test kills this program.
int outstanding(const Words&) {
  const mobula::TaskOptions small{.num_cpus = 0, .stream_window = 2};
  auto here = mobula::task<endless>.options(small).remote();
  mobula::get(*here.next(seconds(60)));
  auto shared = mobula::task<endless>.options(small).remote();
  const auto stopped = mobula::task<stops_reading>.options(small).remote(shared);
  mobula::CompletionQueue queue;
  queue.add(stopped, 1);
  mobula::get(*shared.next(seconds(60)));
  const std::vector<mobula::AnyRef> ready{mobula::put(1)};
  std::atomic<bool> entered = false;
  const auto blocks = mobula::on_ready(ready, [&](std::size_t) {
    entered = true;
    entered.notify_all();
    std::this_thread::sleep_for(seconds(600));
  });
  entered.wait(false);
  tell("ready");
  std::uint64_t token[1];
  queue.take(token, seconds(600));
  return 1;
}

}  // namespace streaming
}  // namespace

std::map<std::string, Scenario> stream_scenarios() {
  return {{"streams", streaming::streams}, {"outstanding", streaming::outstanding}};
}

}  // namespace mobula::e2e
