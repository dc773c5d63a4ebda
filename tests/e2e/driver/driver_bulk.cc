// Scenarios about large values that move between nodes.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;
using Bytes = std::vector<std::uint8_t>;

// Bytes that differ at every offset, to detect a chunk at the wrong offset.
Bytes pattern(std::uint64_t size) {
  Bytes bytes(size);
  for (std::uint64_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = (i + 1) * 0x9e3779b97f4a7c15ULL;
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

std::uint64_t wrong_words(mobula::View<Bytes> bytes) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    wrong += word == (i + 1) * 0x9e3779b97f4a7c15ULL ? 0 : 1;
  }
  return wrong;
}

// An actor that keeps a replica on its node while it lives.
class Keeper {
 public:
  std::uint64_t keep(std::vector<mobula::ObjectRef<Bytes>> refs) {
    refs_ = std::move(refs);
    view_ = mobula::get_view(refs_.at(0));
    return wrong_words(*view_);
  }

 private:
  std::vector<mobula::ObjectRef<Bytes>> refs_;
  std::optional<mobula::View<Bytes>> view_;
};

mobula::TaskOptions on(const std::string& node) {
  mobula::TaskOptions options;
  options.scheduling = mobula::NodeAffinity{node, false};
  return options;
}

// The value is made once on the first node and kept on the second. The test may disturb the first
// node while the third reads. The value cannot be recomputed.
int read_while_a_holder_goes(const Words& nodes) {
  Report report;
  auto maker = on(nodes.at(0));
  maker.max_retries = 0;
  const auto made = mobula::task<pattern>.options(maker).remote(std::uint64_t{256} << 20);
  auto keeper = mobula::actor<Keeper>  //
                    .options({.scheduling = mobula::NodeAffinity{nodes.at(1), false}})
                    .remote();
  const auto copied = keeper.call<&Keeper::keep>(std::vector{made});
  report.equal("wrong words of the copy", mobula::get(copied, seconds(90)), 0u);
  tell("ready");
  hear();
  const auto read = mobula::task<wrong_words>.options(on(nodes.at(2))).remote(made);
  tell("reads");
  report.equal("wrong words", mobula::get(read, seconds(90)), 0u);
  return report.exit_code();
}

// For each line "make", makes a value on the node, and reads it here after one more line. All
// values are kept.
int bring(const Words& nodes) {
  Report report;
  std::vector<mobula::ObjectRef<Bytes>> made;
  while (hear() == "make") {
    made.push_back(mobula::task<pattern>.options(on(nodes.at(0))).remote(std::uint64_t{192} << 20));
    mobula::wait(made, {.num_returns = static_cast<int>(made.size()),
                        .timeout = seconds(90),
                        .fetch_local = false});
    tell("made");
    hear();
    report.equal("wrong words", wrong_words(mobula::get_view(made.back(), seconds(90))), 0u);
    tell("brought");
  }
  return report.exit_code();
}

// One value is read on all nodes at once, and here at the end.
int broadcast(const Words& nodes) {
  Report report;
  const std::uint64_t size = (std::uint64_t{48} << 20) + 8;
  const auto made = mobula::put(pattern(size));
  std::vector<mobula::ObjectRef<std::uint64_t>> reads;
  for (const auto& node : nodes) {
    reads.push_back(mobula::task<wrong_words>.options(on(node)).remote(made));
  }
  for (const auto& wrong : mobula::get(reads, seconds(90))) report.equal("wrong words", wrong, 0u);
  const auto there = mobula::task<pattern>.options(on(nodes.at(0))).remote(size);
  report.holds("the returned value", mobula::get(there, seconds(60)) == pattern(size));
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> bulk_scenarios() {
  return {{"read_while_a_holder_goes", read_while_a_holder_goes},
          {"broadcast", broadcast},
          {"bring", bring}};
}

}  // namespace mobula::e2e
