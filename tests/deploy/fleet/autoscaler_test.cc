// Requests of an autoscaler at rest, to a head and a provider that the test plays.
#include "deploy/fleet/autoscaler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "protocol/codec/messages.h"
#include "transport/bus/bus.h"
#include "transport/loop_fixture.h"

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// A head whose state never changes. It holds a poll back until the test answers it.
class QuietHead {
 public:
  explicit QuietHead(EventLoop& loop) {
    BusCallbacks callbacks;
    callbacks.on_message = [this](PeerHandle from, const PeerOrigin&,
                                  std::span<const std::byte> bytes) {
      receive(from, decode<ToolRequest>(bytes).value());
    };
    bus_ = Bus::create(loop, {}, std::move(callbacks)).value();
    address_ = bus_->bind("127.0.0.1:0").value();
  }

  const std::string& address() const { return address_; }
  std::size_t held_polls() const { return polls_.size(); }
  std::size_t most_held_polls() const { return most_held_; }
  void answer_poll() {
    const auto [from, request] = polls_.back();
    polls_.pop_back();
    reply(from, request, changes());
  }
  int requests(const std::string& verb) const {
    const auto at = requests_.find(verb);
    return at == requests_.end() ? 0 : at->second;
  }
  // Apart from polls and reports.
  int other_requests() const {
    int sum = 0;
    for (const auto& [verb, count] : requests_)
      sum += verb == "changes" || verb == "fleet_report" ? 0 : count;
    return sum;
  }

 private:
  static Json changes() { return {{"epoch", 1}, {"number", 7}}; }

  void receive(PeerHandle from, const ToolRequest& request) {
    ++requests_[request.verb];
    if (request.verb == "changes" && request.kind == "1:7") {
      polls_.emplace_back(from, request.request);
      most_held_ = std::max(most_held_, polls_.size());
    } else if (request.verb == "changes") {
      reply(from, request.request, changes());
    } else if (request.verb == "status") {
      reply(from, request.request, {{"cluster_name", "quiet"}});
    } else if (request.verb == "planner_state") {
      const auto none = Json::array();
      reply(from, request.request,
            {{"nodes", none}, {"slots", none}, {"groups", none}, {"warnings", none}});
    } else {
      reply(from, request.request, {{"orders", Json::array()}});
    }
  }
  void reply(PeerHandle to, std::uint64_t request, const Json& json) {
    ToolReply reply;
    reply.request = request;
    reply.json = json.dump();
    (void)bus_->send(to, encode(reply));
  }

  std::unique_ptr<Bus> bus_;
  std::string address_;
  std::map<std::string, int> requests_;  // by verb
  std::vector<std::pair<PeerHandle, std::uint64_t>> polls_;
  std::size_t most_held_ = 0;
};

class AutoscalerAtRest : public testing::Test {
 protected:
  AutoscalerAtRest() { fs::create_directories(directory); }
  ~AutoscalerAtRest() override { fs::remove_all(directory); }

  // A provider without instances, which notes each call in a file.
  AutoscalerOptions options() const {
    AutoscalerOptions made;
    planner::NodeType type;
    type.name = "cpu";
    type.shape.resources = {{"CPU", {InstanceShape{Quantity::whole(4), "", {}, 0}}}};
    type.max_workers = 3;
    made.types.types = {type};
    made.provider = {"/bin/sh", "-c",
                     "cat > /dev/null; echo call >> " + calls_file +
                         "; echo '{\"version\": 1, \"provider\": \"test\", \"instances\": []}'"};
    return made;
  }
  int provider_calls() const {
    std::ifstream file(calls_file);
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  // Lets the autoscaler poll again. The answer to its poll shows no change.
  void poll_again(QuietHead& head) {
    ASSERT_TRUE(turn_until(*loop, [&] { return head.held_polls() > 0; }));
    const int before = head.requests("changes");
    head.answer_poll();
    ASSERT_TRUE(turn_until(*loop, [&] { return head.requests("changes") > before; }));
  }

  const std::string directory = fmt::format("/tmp/mobula-autoscaler-test-{}", ::getpid());
  const std::string calls_file = directory + "/calls";
  std::unique_ptr<EventLoop> loop = make_loop();
};

TEST_F(AutoscalerAtRest, RequestsNothingBeyondOnePoll) {
  QuietHead head(*loop);
  Autoscaler autoscaler(*loop, options(), [&] { return HeadAddress{head.address()}; });
  autoscaler.start();
  // It describes the provider, lists instances twice, and reads the state.
  ASSERT_TRUE(turn_until(*loop, [&] {
    return provider_calls() >= 3 && head.requests("planner_state") > 0 && head.held_polls() > 0;
  }));
  int same = 0;
  for (int polls = 0; same < 2; ++polls) {
    ASSERT_LT(polls, 30) << "the autoscaler does not come to rest";
    const int before = head.other_requests();
    poll_again(head);
    same = head.other_requests() == before ? same + 1 : 0;
  }

  const int others = head.other_requests();
  const int reports = head.requests("fleet_report");
  const int polls = head.requests("changes");
  const int calls = provider_calls();
  const Time begin = monotonic_now();
  constexpr int rounds = 4;
  for (int round = 0; round < rounds; ++round) poll_again(head);
  const auto took = monotonic_now() - begin;

  EXPECT_EQ(head.other_requests(), others);
  EXPECT_EQ(head.requests("changes"), polls + rounds) << "one after each answer";
  EXPECT_EQ(head.most_held_polls(), 1u);
  // A slow machine makes fewer of them.
  EXPECT_LE(head.requests("fleet_report") - reports, 1 + took / 20s);
  EXPECT_LE(provider_calls() - calls, 1 + took / 60s);
  EXPECT_GE(took, rounds * 1s) << "a pause follows each poll";
}

}  // namespace
}  // namespace mobula::internal::fleet
