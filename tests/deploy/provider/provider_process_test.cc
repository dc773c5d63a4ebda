#include "deploy/fleet/provider_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace mobula::internal::fleet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Providers are shell scripts, which receive the name of the call as $1.
ProviderOptions script(const std::string& text) {
  return {.words = {"/bin/sh", "-c", text, "provider"}};
}

ProviderRequest call_of(ProviderCall call) {
  ProviderRequest request{.call = call, .cluster = "lab", .cluster_id = "3f2a"};
  if (call == ProviderCall::launch)
    request.instances = {{.name = "mobula-3f2a-1"}, {.name = "mobula-3f2a-2"}};
  return request;
}

// Runs the loop of a caller until `count` replies have arrived.
std::vector<ProviderReply> replies_of(ProviderProcess& provider, std::size_t count) {
  std::vector<ProviderReply> all;
  const Time until = monotonic_now() + 60s;
  while (all.size() < count && monotonic_now() < until) {
    std::vector<pollfd> items;
    provider.watch(items);
    const auto next = std::min(provider.next_deadline().value_or(until), until);
    const auto left = std::max(Duration(0), next - monotonic_now());
    ::poll(items.data(), items.size(), static_cast<int>(left / 1ms) + 1);
    for (auto& each : provider.step(monotonic_now())) all.push_back(std::move(each));
  }
  EXPECT_EQ(all.size(), count);
  return all;
}

ProviderReply reply_of(const ProviderOptions& options, ProviderCall call) {
  ProviderProcess provider(options);
  const auto number = provider.start(call_of(call));
  auto replies = replies_of(provider, 1);
  if (replies.empty()) return {};
  EXPECT_EQ(replies[0].number, number);
  return std::move(replies[0]);
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

TEST(ProviderProcess, PassesRequestAndReturnsAnswer) {
  const auto reply = reply_of(
      script(R"(test "$1" = list || exit 9; read line; case $line in *3f2a*) ;; *) exit 8;; esac
             echo '{"instances": [{"name": "a", "ref": "1", "state": "starting"}]}')"),
      ProviderCall::list);
  EXPECT_FALSE(reply.error);
  ASSERT_EQ(reply.instances.size(), 1u);
  EXPECT_EQ(reply.instances[0].state, ProviderState::starting);
  EXPECT_TRUE(reply.complete);
  EXPECT_FALSE(has_children());
}

TEST(ProviderProcess, ReportsExitCodeWithStderr) {
  const auto reply = reply_of(script("echo 'no such account' >&2; exit 3"), ProviderCall::launch);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->kind, FailureKind::transient);
  EXPECT_THAT(reply.error->text,
              HasSubstr("provider launch: /bin/sh exited with 3; stderr: no such account"));
  ASSERT_EQ(reply.instances.size(), 2u);
  EXPECT_TRUE(reply.instances[0].error);
}

TEST(ProviderProcess, ReportsDeathBySignal) {
  const auto reply = reply_of(script("kill -9 $$"), ProviderCall::list);
  ASSERT_TRUE(reply.error);
  EXPECT_THAT(reply.error->text, HasSubstr("was ended by signal 9"));
  EXPECT_FALSE(reply.complete);
}

TEST(ProviderProcess, ReportsGarbageWithStderr) {
  const auto reply = reply_of(script("echo oops; echo broken >&2"), ProviderCall::list);
  ASSERT_TRUE(reply.error);
  EXPECT_THAT(reply.error->text, HasSubstr("not a JSON object: 'oops'; stderr: broken"));
}

TEST(ProviderProcess, KeepsFailureOfExitingProgram) {
  const auto reply =
      reply_of(script(R"(echo '{"error": {"kind": "auth", "text": "expired"}}'; exit 1)"),
               ProviderCall::list);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->kind, FailureKind::auth);
  EXPECT_THAT(reply.error->text, HasSubstr("expired"));
}

TEST(ProviderProcess, KillsProgramThatWritesTooMuch) {
  const auto reply = reply_of(script("head -c 10485760 /dev/zero"), ProviderCall::list);
  ASSERT_TRUE(reply.error);
  EXPECT_THAT(reply.error->text, HasSubstr("wrote more than 8388608 bytes"));
}

TEST(ProviderProcess, SurvivesEndlessStderr) {
  auto options = script("yes error >&2");
  options.timeout = 300ms;
  const auto reply = reply_of(options, ProviderCall::list);
  ASSERT_TRUE(reply.error);
  EXPECT_THAT(reply.error->text, HasSubstr("did not reply"));
  EXPECT_LE(reply.error->text.size(), max_provider_text);
}

TEST(ProviderProcess, Hang_KillsWholeGroup) {
  const auto file = ::testing::TempDir() + "provider-pids-" + std::to_string(::getpid());
  std::filesystem::remove(file);
  auto options = script("sleep 1000 & echo $! $$ > " + file + ".new; mv " + file + ".new " + file +
                        "; exec sleep 1000");
  options.timeout = 2s;
  ProviderProcess provider(options);
  provider.start(call_of(ProviderCall::list));
  const auto replies = replies_of(provider, 1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(replies[0].error->text, HasSubstr("did not reply within 2 s; it was killed"));
  std::ifstream in(file);
  pid_t child = 0;
  pid_t leader = 0;
  ASSERT_TRUE(in >> child >> leader);
  std::filesystem::remove(file);
  // The child belongs to init now, which may reap it later; a zombie counts as ended.
  const auto state_of = [](pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string id, name, state = "gone";
    stat >> id >> name >> state;
    return state;
  };
  const Time until = monotonic_now() + 30s;
  while (state_of(child) != "gone" && state_of(child) != "Z" && monotonic_now() < until) {
    std::vector<pollfd> items;
    provider.watch(items);
    ::poll(items.data(), items.size(), 10);
    (void)provider.step(monotonic_now());
  }
  EXPECT_THAT(state_of(child), ::testing::AnyOf("gone", "Z"));
  while (has_children() && monotonic_now() < until) (void)provider.step(monotonic_now());
  EXPECT_FALSE(has_children()) << "a zombie is left";
}

TEST(ProviderProcess, EndsCallWithItsLeader) {
  // A grandchild keeps the pipes open.
  const auto reply =
      reply_of(script(R"(sleep 1000 & echo '{"instances": []}')"), ProviderCall::list);
  EXPECT_FALSE(reply.error);
}

TEST(ProviderProcess, MissingProgram_IsInvalid) {
  const auto reply = reply_of({.words = {"/no/such/provider"}}, ProviderCall::launch);
  ASSERT_TRUE(reply.error);
  EXPECT_EQ(reply.error->kind, FailureKind::invalid);
  EXPECT_THAT(reply.error->text, HasSubstr("/no/such/provider"));
  EXPECT_EQ(reply.instances.size(), 2u);
}

TEST(ProviderProcess, BoundsConcurrencyAndQueue) {
  auto options = script(R"(echo '{"instances": []}')");
  options.max_running = 2;
  options.max_waiting = 3;
  ProviderProcess provider(options);
  for (int i = 0; i < 6; ++i) provider.start(call_of(ProviderCall::list));
  EXPECT_EQ(provider.running(), 2u);
  const auto replies = replies_of(provider, 6);
  std::size_t failed = 0;
  for (const auto& each : replies) {
    if (!each.error) continue;
    ++failed;
    EXPECT_THAT(each.error->text, HasSubstr("3 calls of the provider wait; the limit is 3"));
  }
  EXPECT_EQ(failed, 1u);
  EXPECT_EQ(provider.running(), 0u);
  EXPECT_FALSE(provider.next_deadline());
}

TEST(ProviderProcess, UnreadRequest_IsDropped) {
  auto request = call_of(ProviderCall::list);
  request.settings["much"] = std::string(3'000'000, 'x');
  ProviderProcess provider(script(R"(echo '{"instances": []}')"));
  provider.start(request);
  const auto replies = replies_of(provider, 1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_FALSE(replies[0].error);
}

TEST(ProviderProcess, Destructor_KillsRunningCalls) {
  {
    ProviderProcess provider(script("exec sleep 1000"));
    provider.start(call_of(ProviderCall::list));
    EXPECT_EQ(provider.running(), 1u);
  }
  EXPECT_FALSE(has_children());
}

}  // namespace
}  // namespace mobula::internal::fleet
