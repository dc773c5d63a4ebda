// Tests tokens in the core: creation, lists, single use, expiry, revocation, and restarts of the
// head. Also tests the permissions of each role.
#include <gmock/gmock.h>

#include <set>

#include <nlohmann/json.hpp>

#include "head/core/small_cluster.h"
#include "protocol/tickets/verbs.h"

namespace mobula::internal::head {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using TokenJson = nlohmann::json;

std::string key(char of) { return std::string(40, of); }

class Tokens : public testing::Test {
 protected:
  ToolReply create(const std::string& role, char of, const std::string& name,
                   std::int64_t expires_ms = 0) {
    return cluster.tool(
        "token_create", "",
        TokenJson{
            {"role", role}, {"public_key", key(of)}, {"name", name}, {"expires_ms", expires_ms}}
            .dump());
  }
  ToolReply join(const Principal& ticket, char of, const std::string& host) {
    ToolRequest request;
    request.request = 3;
    request.verb = "join";
    request.argument = TokenJson{{"public_key", key(of)}, {"host", host}}.dump();
    return send_query(ticket, request);
  }
  ToolReply send_query(const Principal& by, const ToolRequest& request) {
    const std::size_t before = cluster.replies.size();
    cluster.step(ReceivedFromTool{42, by, request});
    return cluster.replies.size() > before ? cluster.replies.back() : ToolReply{};
  }
  Result<Principal> who(char of) { return cluster.core().principal_of(key(of), cluster.now); }
  std::string state(const std::string& name) {
    const auto list = TokenJson::parse(cluster.tool("token_list", "", "").json);
    for (const auto& item : list["items"]) {
      if (item["name"] == name) return item["state"];
    }
    return "none";
  }

  SmallCluster cluster;
};

TEST_F(Tokens, HeadRestarted_TokensKeepRoles) {
  ASSERT_TRUE(create("observer", 'o', "eyes").ok);
  ASSERT_TRUE(create("driver", 'd', "wheel").ok);
  ASSERT_TRUE(create("agent", 'a', "hands").ok);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(who('o').value(), (Principal{Role::observer, "eyes", {}}));
    EXPECT_EQ(who('d').value(), (Principal{Role::driver, "wheel", {}}));
    EXPECT_EQ(who('a').value().role, Role::unproven);
    EXPECT_EQ(who('x').error().code, ErrorCode::permission_denied);
    EXPECT_EQ(state("hands"), "VALID");
    cluster.restart_head();
  }
}

TEST_F(Tokens, WarnsWhenJobsCanReadHeadKeys) {
  const auto exposed_events = [&] {
    const auto list = TokenJson::parse(cluster.tool("list", "events").json);
    std::vector<std::string> texts;
    for (const auto& item : list["items"]) {
      if (item["kind"] == "HEAD_KEYS_EXPOSED") texts.push_back(item["text"]);
    }
    return texts;
  };
  TokenJson request{
      {"role", "observer"}, {"public_key", key('o')}, {"name", "eyes"}, {"readable_keys", "/s/c"}};
  ASSERT_TRUE(cluster.tool("token_create", "", request.dump()).ok);
  ASSERT_TRUE(create("driver", 'd', "other").ok);
  EXPECT_THAT(exposed_events(), testing::IsEmpty());
  request.update({{"role", "driver"}, {"public_key", key('w')}, {"name", "wheel"}});
  ASSERT_TRUE(cluster.tool("token_create", "", request.dump()).ok);
  EXPECT_THAT(exposed_events(),
              testing::ElementsAre(testing::AllOf(HasSubstr("'wheel'"), HasSubstr("/s/c"))));
}

TEST_F(Tokens, JoinToken_AdmitsOneMachineOnce) {
  ASSERT_TRUE(create("agent", 'a', "hands").ok);
  const Principal ticket = who('a').value();
  ASSERT_TRUE(join(ticket, 'm', "host-1").ok);
  EXPECT_EQ(who('m').value(), (Principal{Role::agent, "hands", {}}));
  EXPECT_TRUE(join(ticket, 'm', "host-1").ok);  // repeated after a lost reply
  const auto second = join(who('a').value(), 'n', "host-2");
  EXPECT_FALSE(second.ok);
  EXPECT_EQ(second.code, ErrorCode::permission_denied);
  EXPECT_THAT(second.text, HasSubstr("'hands'"));
  EXPECT_THAT(second.text, HasSubstr("'host-1'"));
  EXPECT_FALSE(who('n').ok());
  cluster.restart_head();
  EXPECT_EQ(who('m').value().role, Role::agent);
  EXPECT_FALSE(join(who('a').value(), 'n', "host-2").ok);
  EXPECT_EQ(state("hands"), "USED");
  // After revocation the joined machine is not admitted either.
  ASSERT_TRUE(cluster.tool("token_revoke", "", "hands").ok);
  EXPECT_THAT(who('m').error().text, HasSubstr("revoked"));
  EXPECT_THAT(who('a').error().text, HasSubstr("revoked"));
}

TEST_F(Tokens, RevokedTwice_ReportsFirstTime) {
  ASSERT_TRUE(create("observer", 'o', "eyes").ok);
  ASSERT_TRUE(cluster.tool("token_revoke", "", "eyes").ok);
  const auto again = cluster.tool("token_revoke", "", "eyes");
  ASSERT_TRUE(again.ok) << again.text;
  EXPECT_THAT(again.json, HasSubstr("it was revoked at "));
}

TEST_F(Tokens, PersistFailed_CreatesNoToken) {
  cluster.persist_at_once = false;
  (void)create("driver", 'd', "wheel");
  cluster.fail_to_persist("the disk is full");
  cluster.persist_at_once = true;
  ASSERT_FALSE(cluster.replies.empty());
  EXPECT_FALSE(cluster.replies.back().ok);
  EXPECT_EQ(cluster.replies.back().code, ErrorCode::resource_exhausted);
  EXPECT_THAT(cluster.replies.back().text, HasSubstr("the disk is full"));
  EXPECT_EQ(state("wheel"), "none");
  EXPECT_FALSE(who('d').ok());
  cluster.pass(10s);  // failed rows are written again, except this one
  cluster.restart_head();
  EXPECT_FALSE(who('d').ok());
  EXPECT_TRUE(create("driver", 'e', "wheel").ok);
}

TEST_F(Tokens, RejectsJoinWithForeignKey) {
  ASSERT_TRUE(create("agent", 'a', "hands").ok);
  ASSERT_TRUE(create("observer", 'o', "eyes").ok);
  EXPECT_FALSE(join(who('a').value(), 'o', "host").ok);
  EXPECT_FALSE(join(Principal{Role::unproven, "ticket:0123456789abcdef", {}}, 'm', "host").ok);
  EXPECT_FALSE(join(Principal{Role::unproven, "", {}}, 'm', "host").ok);
  EXPECT_EQ(state("hands"), "VALID");
}

TEST_F(Tokens, ExpiresByHeadClockAndReportsBothTimes) {
  ASSERT_TRUE(create("observer", 'o', "eyes", 60'000).ok);
  EXPECT_TRUE(who('o').ok());
  cluster.pass(60s + 4min);
  EXPECT_TRUE(who('o').ok());  // within the tolerance for clock skew
  cluster.pass(1min);
  const auto late = who('o');
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().text, HasSubstr("'eyes'"));
  EXPECT_THAT(late.error().text, HasSubstr("expired at"));
  EXPECT_THAT(late.error().text, HasSubstr("clock says"));
  EXPECT_EQ(state("eyes"), "EXPIRED");
  EXPECT_TRUE(create("observer", 'p', "eyes").ok);  // the name is free again
}

TEST_F(Tokens, ExpiresWhileHeadMachineSleeps) {
  ASSERT_TRUE(create("observer", 'o', "eyes", 60'000).ok);
  const std::int64_t before_ms = cluster.core().wall_ms(cluster.now);
  cluster.step(ClockMoved{before_ms + 10 * 60'000});  // the monotonic clock does not advance
  EXPECT_THAT(who('o').error().text, HasSubstr("expired at"));
  EXPECT_EQ(state("eyes"), "EXPIRED");
  cluster.step(ClockMoved{before_ms - 10 * 60'000});
  EXPECT_THAT(who('o').error().text, HasSubstr("not valid yet"));
  EXPECT_THAT(who('o').error().text, HasSubstr("clock says"));
}

TEST_F(Tokens, RejectsInvalidTokensWithBrokenRule) {
  EXPECT_THAT(create("operator", 'o', "x").text, HasSubstr("--role"));
  EXPECT_THAT(create("", 'o', "x").text, HasSubstr("--role"));
  EXPECT_THAT(create("observer", ' ', "x").text, HasSubstr("key"));
  EXPECT_THAT(create("observer", 'o', std::string(300, 'n')).text, HasSubstr("256"));
  EXPECT_THAT(create("observer", 'o', "a\nb").text, HasSubstr("control"));
  EXPECT_THAT(create("observer", 'o', "x", -1).text, HasSubstr("--expires"));
  ASSERT_TRUE(create("observer", 'o', "x").ok);
  EXPECT_TRUE(create("observer", 'o', "x").ok);  // repeated request
  const auto twice = create("driver", 'd', "x");
  EXPECT_EQ(twice.code, ErrorCode::already_exists);
  EXPECT_EQ(cluster.tool("token_revoke", "", "nothing").code, ErrorCode::not_found);
  EXPECT_EQ(cluster.tool("token_create", "", "[").code, ErrorCode::invalid_argument);
}

TEST_F(Tokens, LimitsEachRoleToItsVerbs) {
  const std::set<std::string> orders{"submit",     "job_stop", "drain",        "actor_kill",
                                     "undrain",    "stop",     "token_create", "token_revoke",
                                     "token_list", "join"};
  for (const VerbRow& row : roles::verbs) {
    for (const Role role : all_roles) {
      ToolRequest request;
      request.verb = row.verb;
      request.kind = row.verb == "list" ? "nodes" : "";
      const auto reply = send_query(Principal{role, "somebody", {}}, request);
      const bool refused = !reply.ok && reply.code == ErrorCode::permission_denied;
      // TokenTable rejects a principal without a join token.
      const bool expected = !may_use(role, row.verb) || row.verb == "join";
      EXPECT_EQ(refused, expected) << row.verb << " by " << to_string(role) << ": " << reply.text;
      if (role == Role::observer && orders.contains(std::string(row.verb)))
        EXPECT_TRUE(refused) << row.verb;
    }
  }
}

}  // namespace
}  // namespace mobula::internal::head
