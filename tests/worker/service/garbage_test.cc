#include <fstream>
#include <iterator>

#include "base/logging/log.h"
#include "service_fixture.h"

namespace mobula::internal::worker {
namespace {

const std::string garbage = "\xc1 this is no message";

TEST_F(ServiceTest, DropsBadFramesOfProcesses) {
  start_registered();
  FakeDriver& driver = attach_driver();
  driver.say_bytes(garbage);
  bring_program(driver);  // the link continues
  EXPECT_FALSE(driver.closed);
  attach_driver();  // other processes are served as before
}

TEST_F(ServiceTest, DisconnectsProcessThatSendsBeforeAttach) {
  start_registered();
  FakeDriver stranger(*loop_, service_->socket_path(), job_);
  stranger.say(ReserveObjectRequest{ObjectId::random(), 100});
  EXPECT_TRUE(until([&] { return stranger.closed; }));
}

TEST_F(ServiceTest, DropsBadMessagesOfHead) {
  start_registered();
  head_->say_bytes(garbage);
  FakeDriver& driver = attach_driver();
  bring_program(driver);  // the session continues
}

TEST_F(ServiceTest, IgnoresPeersWithoutTicket) {
  start_registered();
  const std::string log = (directory_ / "log").string();
  ASSERT_TRUE(open_log({.role = "agent", .level = LogLevel::warn, .file = log}).ok());
  AllowTable nobody;
  BusOptions options;
  options.keys = CurveKeys::generate().value();
  options.allow = &nobody;
  BusCallbacks callbacks;
  callbacks.on_message = [](PeerHandle, const PeerOrigin&, std::span<const std::byte>) {
    FAIL() << "an unproven peer is not answered";
  };
  const auto bus = Bus::create(*loop_, std::move(options), std::move(callbacks)).value();
  const AgentAddress& agent = service_->address();
  const PeerHandle peer = bus->connect(agent.control, agent.public_key).value();
  PeerFrame frame;
  frame.from = ProcessId::random();
  frame.to = agent.incarnation;
  ASSERT_TRUE(bus->send(peer, encode(PeerHello{protocol_version, frame.from, "a ticket of mine"})));
  ASSERT_TRUE(bus->send(peer, encode(frame)));
  EXPECT_TRUE(until([&] {
    std::ifstream file(log);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find("closed connection") != std::string::npos;
  }));
  ASSERT_TRUE(open_log({.role = "agent", .level = LogLevel::warn, .file = {}}).ok());
  FakeDriver& driver = attach_driver();
  EXPECT_FALSE(driver.closed);
}

}  // namespace
}  // namespace mobula::internal::worker
