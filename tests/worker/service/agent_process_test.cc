// run_worker in its own process, as the `mobula` program runs it.
#include "agent_process.h"

namespace mobula::internal::worker {
namespace {

TEST_F(AgentProcessTest, WritesFileWhileRunningAndExitsCleanly) {
  const pid_t agent = start_agent("log");
  ASSERT_TRUE(until([&] { return is_ready("log"); })) << text_of("log");
  const auto file = load_agent_file(agent_json().string()).value();
  EXPECT_EQ(file.pid, agent);
  EXPECT_EQ(file.head_address, head_->address());
  EXPECT_TRUE(connect_local(file.socket).ok());
  RecordProperty("resident_kib", static_cast<int>(resident_kib(agent)));
  ::kill(agent, SIGTERM);
  EXPECT_EQ(end_of(agent), 0) << text_of("log");
  EXPECT_FALSE(std::filesystem::exists(agent_json()));
  EXPECT_FALSE(std::filesystem::exists(file.socket));
  EXPECT_FALSE(head_->farewells().empty());
}

TEST_F(AgentProcessTest, KeepsNodeIdButNotIncarnation) {
  for (const char* log : {"first", "second"}) {
    const pid_t agent = start_agent(log);
    ASSERT_TRUE(until([&] { return is_ready(log); })) << text_of(log);
    ::kill(agent, SIGINT);
    EXPECT_EQ(end_of(agent), 0);
  }
  const RegisterRequest& first = head_->registrations().front();
  const RegisterRequest& second = head_->registrations().back();
  EXPECT_EQ(first.address.node, second.address.node);
  EXPECT_NE(first.address.incarnation, second.address.incarnation);
}

TEST_F(AgentProcessTest, SecondAgentInDirectory_NamesFirst) {
  const pid_t first = start_agent("first");
  ASSERT_TRUE(until([&] { return is_ready("first"); }));
  const pid_t second = start_agent("second");
  EXPECT_EQ(end_of(second), 1);
  EXPECT_NE(text_of("second").find("process " + std::to_string(first)), std::string::npos)
      << text_of("second");
}

TEST_F(AgentProcessTest, StarterExited_AgentEnds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Fd read(ends[0]);
  Fd write(ends[1]);
  ASSERT_EQ(::fcntl(write.get(), F_SETFD, FD_CLOEXEC), 0);
  const pid_t agent = start_agent("log", read.get());
  ASSERT_TRUE(until([&] { return is_ready("log"); })) << text_of("log");
  write.reset();
  EXPECT_EQ(end_of(agent), 0);
}

TEST_F(AgentProcessTest, UnknownKey_AgentExitsWithPermissionCode) {
  head_->forget_agents_key();
  const pid_t agent = start_agent("log");
  EXPECT_EQ(end_of(agent), 4) << text_of("log");
}

}  // namespace
}  // namespace mobula::internal::worker
