// Invalid input from outside, end to end: other protocol versions, and wrong directories, files,
// and arguments.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "e2e/cluster.h"
#include "protocol/codec/messages.h"
#include "protocol/program/cluster_files.h"
#include "transport/bus/bus.h"
#include "transport/local/local_frame.h"
#include "transport/local/local_listener.h"
#include "transport/loop/event_loop.h"

namespace mobula::e2e {
namespace {

using namespace mobula::internal;
using BadInput = ClusterTest;
constexpr std::uint32_t other_version = protocol_version + 98;

// The error names both versions.
void expect_versions(const std::string& text) {
  EXPECT_NE(text.find(std::to_string(other_version)), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(protocol_version)), std::string::npos) << text;
  EXPECT_NE(text.find("protocol version"), std::string::npos) << text;
}

// Returns the head's reply to a message under this key.
template <class Reply, class Message>
std::optional<Reply> query_head(const std::string& address, const KeyFile& key,
                                const Message& message) {
  auto loop = EventLoop::create().value();
  AllowTable nobody;
  BusOptions options;
  options.keys = CurveKeys{key.public_key, key.secret_key};
  options.allow = &nobody;
  std::optional<Reply> reply;
  BusCallbacks callbacks;
  callbacks.on_message = [&](PeerHandle, const PeerOrigin&, std::span<const std::byte> bytes) {
    if (auto read = decode<Reply>(bytes)) reply = std::move(*read);
  };
  auto bus = Bus::create(*loop, std::move(options), std::move(callbacks)).value();
  const auto head = bus->connect(address, key.head_curve_key).value();
  EXPECT_TRUE(bus->send(head, encode(message)));
  const Time deadline = monotonic_now() + Duration(20s);
  while (!reply && monotonic_now() < deadline) loop->turn(Duration(100ms));
  return reply;
}

TEST_F(BadInput, RejectsDriverOfAnotherVersion) {
  start_head();
  const Json agent = Json::parse(read_text(state_of("a") + "/default/agent/agent.json"));
  const auto socket = connect_local(agent.value("socket", ""));
  ASSERT_TRUE(socket) << socket.error().text;
  AttachDriver attach;
  attach.version = attach.oldest = other_version;
  attach.process = ProcessId::random();
  attach.job = JobId::random();
  const Time deadline = monotonic_now() + Duration(20s);
  ASSERT_TRUE(send_frame(*socket, encode(ProcessToAgent(attach)), {}, deadline));
  const auto frame = receive_frame(*socket, deadline);
  ASSERT_TRUE(frame) << frame.error().text;
  const auto answer = decode<AgentToProcess>(frame->bytes);
  ASSERT_TRUE(answer);
  const auto* refused = std::get_if<AttachRefused>(&*answer);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, ErrorCode::corrupt) << "which is ProtocolMismatchError at the user";
  expect_versions(refused->why);
  drive({"hello"});
}

TEST_F(BadInput, RejectsToolAndAgentOfAnotherVersion) {
  start_head();
  const auto key = load_key_file(state_of("a") + "/default/default.key");
  ASSERT_TRUE(key) << key.error().text;
  ToolRequest request;
  request.version = request.oldest = other_version;
  request.request = 1;
  request.verb = "status";
  const auto reply = query_head<ToolReply>(address(), *key, request);
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->ok);
  EXPECT_NE(reply->text.find("ProtocolMismatchError"), std::string::npos) << reply->text;
  expect_versions(reply->text);

  RegisterRequest registration;
  registration.version = registration.oldest = other_version;
  registration.address.node = NodeId::random();
  registration.address.incarnation = ProcessId::random();
  const auto answer = query_head<HeadToAgent>(address(), *key, AgentToHead(registration));
  ASSERT_TRUE(answer);
  const auto* refused = std::get_if<RegisterRejected>(&*answer);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->code, RefusalCode::version);
  EXPECT_NE(refused->why.find("ProtocolMismatchError"), std::string::npos) << refused->why;
  expect_versions(refused->why);
  EXPECT_EQ(alive_nodes(), 1u);
}

TEST_F(BadInput, NamesStateDirectoryThatCannotBeCreated) {
  // No user can make a directory below a file, not even root.
  std::ofstream(directory() + "/x") << "a file";
  std::filesystem::create_symlink(directory() + "/x", directory() + "/b");
  const Ended ended = mobula({"start", "--head"}, "b");
  EXPECT_NE(ended.code, 0);
  EXPECT_NE(ended.err.find(directory() + "/b"), std::string::npos) << ended.err;
}

TEST_F(BadInput, RejectsInvalidJsonAndUnknownAccelerators) {
  start_head();
  const Ended broken = mobula({"explain", R"({"num_cpus": )"});
  EXPECT_EQ(broken.code, 2) << broken.out << broken.err;
  EXPECT_NE(broken.err.find("JSON"), std::string::npos) << broken.err;
  const Ended unknown_field = mobula({"explain", R"({"num_cpu": 1})"});
  EXPECT_EQ(unknown_field.code, 2) << unknown_field.out << unknown_field.err;
  EXPECT_NE(unknown_field.err.find("num_cpu"), std::string::npos) << unknown_field.err;
  const Ended unknown = mobula({"explain", R"({"num_gpus": 1, "accelerator_type": "no-such"})"});
  EXPECT_EQ(unknown.code, 6) << unknown.out << unknown.err;
  EXPECT_NE((unknown.out + unknown.err).find("no-such"), std::string::npos);
}

}  // namespace
}  // namespace mobula::e2e
