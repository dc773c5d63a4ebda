#include "worker/process_links.h"

#include <gtest/gtest.h>

#include "protocol/codec/messages.h"
#include "transport/local/local_link.h"

namespace mobula::internal::worker {
namespace {

TEST(ProcessLinks, ReportsLinesThatSlowDriverMissed) {
  const auto loop = EventLoop::create().value();
  ProcessLinks links(*loop, {.connected = [](LinkId, const std::string&, std::int64_t) {},
                             .on_message = [](LinkId, const ProcessToAgent&) {},
                             .lost = [](LinkId, const std::optional<EndCause>&) {}});
  auto [agent, driver] = make_local_pair().value();
  const LinkId link = links.adopt(std::move(agent)).value();
  const LogLines large{"task", {std::string(1u << 20, 'x')}};
  for (int i = 0; i < 10; ++i) links.send(link, large);  // beyond the limit of the queue
  links.send(link, LogLines{"task", {"a", "b"}});

  std::vector<std::string> lines;
  LocalLink::Callbacks callbacks;
  callbacks.on_frame = [&](const LocalFrame& frame) {
    const auto message = decode<AgentToProcess>(frame.bytes).value();
    for (const auto& line : std::get<LogLines>(message).lines) lines.push_back(line);
  };
  callbacks.on_closed = [](const Failure& why) { FAIL() << why.text; };
  const auto reader = LocalLink::open(*loop, std::move(driver), std::move(callbacks)).value();
  const auto read = [&] { return static_cast<int>(lines.size()); };
  while (read() < 5) loop->turn(1s);
  links.send(link, LogLines{"task", {"late"}});
  while (lines.back() != "late") loop->turn(1s);

  const int delivered = read() - 2;
  const std::string& report = lines[lines.size() - 2];
  EXPECT_EQ(report, std::to_string(12 - delivered) +
                        " lines were dropped: this process reads its messages slowly");
}

}  // namespace
}  // namespace mobula::internal::worker
