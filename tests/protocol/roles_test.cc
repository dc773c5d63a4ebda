// Checks the table of permitted senders for every message and role against the documented roles,
// which are stated independently here.
#include "protocol/tickets/roles.h"
#include "protocol/tickets/verbs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "protocol/all_messages.h"

namespace mobula::internal {
namespace {

// Roles that may send at least one message of a variant are in `senders`; roles in `all` may send
// each of them.
template <class Choice>
void expect_within(const std::set<Role>& senders, const std::set<Role>& all = {}) {
  test::for_each_alternative<Choice>([&](auto tag, auto alternative) {
    const std::string name = test::type_name<decltype(alternative)>();
    const Choice message(tag, std::move(alternative));
    bool somebody = false;
    for (const Role role : all_roles) {
      const bool may = may_send(role, message);
      somebody = somebody || may;
      if (may) EXPECT_TRUE(senders.contains(role)) << name << " by " << to_string(role);
      if (all.contains(role)) EXPECT_TRUE(may) << name << " by " << to_string(role);
    }
    EXPECT_TRUE(somebody) << name << ": no role may send it";
  });
}

TEST(Roles, EveryMessage_HasItsSendersOnly) {
  expect_within<AgentToHead>({Role::agent, Role::driver_agent}, {Role::agent, Role::driver_agent});
  // Agents and processes send some replies with the same messages. The sender of a frame is checked
  // before.
  expect_within<AgentMessage>(
      {Role::agent, Role::driver_agent, Role::head, Role::driver, Role::executor}, {Role::agent});
  expect_within<ProcessToHead>({Role::driver, Role::executor, Role::agent, Role::driver_agent},
                               {Role::driver});
  expect_within<HeadToAgent>({Role::head}, {Role::head});
  expect_within<HeadMessage>({Role::head, Role::agent, Role::driver_agent}, {Role::head});
  expect_within<HeadToProcess>({Role::head}, {Role::head});
  expect_within<ProcessToAgent>({Role::driver, Role::executor});
  expect_within<AgentToProcess>({Role::agent, Role::driver_agent, Role::head}, {Role::agent});
  expect_within<PeerMessage>({Role::agent, Role::driver_agent}, {Role::agent, Role::driver_agent});
  expect_within<CallerMessage>({Role::driver, Role::executor}, {Role::driver, Role::executor});
  expect_within<ExecutorMessage>({Role::executor}, {Role::executor});
}

TEST(Roles, CoversAllMessageVariants) {
  // A variant that is added to the protocol needs a row in the test above.
  EXPECT_EQ(std::tuple_size_v<test::AllChoices>, 14u);
}

TEST(Roles, NoSlots_MaySendNoSlotMessages) {
  EXPECT_FALSE(may_send(Role::driver_agent, AgentMessage(SlotStarted{})));
  EXPECT_FALSE(may_send(Role::driver_agent, AgentMessage(SlotGone{})));
  EXPECT_FALSE(may_send(Role::driver_agent, AgentMessage(ActorConstructed{})));
  EXPECT_FALSE(may_send(Role::driver_agent, AgentMessage(ReadJobLogReply{})));
  EXPECT_TRUE(may_send(Role::driver_agent, AgentMessage(FromProcess{})));
  EXPECT_FALSE(may_send(Role::executor, ProcessToHead(StartJob{})));
  EXPECT_FALSE(may_send(Role::executor, ProcessToHead(EndJob{})));
  EXPECT_FALSE(may_send(Role::driver, ProcessToAgent(ExecutorReady{})));
  EXPECT_FALSE(may_send(Role::executor, ProcessToAgent(AttachDriver{})));
}

TEST(Roles, AllowsEachVerbToItsRoles) {
  const std::set<std::string_view> reads{
      "status",   "list",    "get",       "explain",  "named_actors", "planner_state",
      "metrics",  "job_log", "list_part", "timeline", "logs",         "log",
      "head_log", "usage",   "changes",   "history",  "fleet"};
  const std::set<std::string_view> jobs{"submit", "job_stop", "package_put"};
  const std::set<std::string_view> orders{"drain",        "undrain",      "actor_kill",
                                          "stop",         "token_create", "token_list",
                                          "token_revoke", "fleet_report", "fleet_order"};
  std::size_t known = 3;  // ping, join, package_get
  for (const VerbRow& row : roles::verbs) {
    const bool read = reads.contains(row.verb);
    const bool job = jobs.contains(row.verb);
    const bool order = orders.contains(row.verb);
    known += read || job || order ? 1 : 0;
    const bool ping = row.verb == "ping";
    const bool join = row.verb == "join";
    const bool files = row.verb == "package_get";
    EXPECT_TRUE(read || job || order || ping || join || files)
        << row.verb << " is missing in this test";
    const bool reports = row.verb == "token_list" || row.verb == "fleet_report";
    EXPECT_EQ(row.changes, !read && !ping && !files && !reports) << row.verb;
    EXPECT_EQ(may_use(Role::observer, row.verb), read || ping) << row.verb;
    EXPECT_EQ(may_use(Role::agent, row.verb), read || ping || files) << row.verb;
    EXPECT_EQ(may_use(Role::driver, row.verb), read || ping || job) << row.verb;
    EXPECT_EQ(may_use(Role::operator_, row.verb), !join) << row.verb;
    EXPECT_EQ(may_use(Role::unproven, row.verb), ping || join) << row.verb;
    EXPECT_EQ(may_use(Role::metrics, row.verb), row.verb == "metrics") << row.verb;
    EXPECT_FALSE(may_use(Role::executor, row.verb)) << row.verb;
    EXPECT_FALSE(may_use(Role::head, row.verb)) << row.verb;
  }
  EXPECT_EQ(known, roles::verbs.size());
  for (const Role role : all_roles) {
    EXPECT_FALSE(may_use(role, "format_the_disk"));
    EXPECT_FALSE(may_use(role, ""));
  }
}

}  // namespace
}  // namespace mobula::internal
