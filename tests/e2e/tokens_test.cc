// Tokens, tickets, and HTTP pages of real processes: which credential admits whom, with which
// permissions, also after the head was killed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class TokenCluster : public ClusterTest {
 protected:
  std::string create(const std::string& role, const std::string& name, Words more = {}) {
    Words words{"token", "create", "--role", role, "--name", name};
    words.insert(words.end(), more.begin(), more.end());
    const Ended made = mobula(words);
    EXPECT_EQ(made.code, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }
  // Runs the program on a machine that has only the token.
  Ended by_token(const std::string& token, const Words& words) {
    more_environment["MOBULA_TOKEN"] = token;
    const Ended ended = mobula(words, "elsewhere");
    more_environment.erase("MOBULA_TOKEN");
    return ended;
  }
  Json http() {
    const Json status = Json::parse(mobula({"status", "-o", "json"}).out, nullptr, false);
    return status.is_object() ? status.value("http", Json::object()) : Json::object();
  }
  // Returns the status and body of a page. Status 0 means that no server replied.
  std::pair<int, std::string> page(const std::string& path, const std::string& token = {}) {
    const std::string url = http().value("url", "");
    const auto port = static_cast<std::uint16_t>(std::atoi(url.substr(url.rfind(':') + 1).c_str()));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string text;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
      std::string request = "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
      if (!token.empty()) request += "Authorization: Bearer " + token + "\r\n";
      request += "\r\n";
      (void)!::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
      char buffer[4096];
      for (ssize_t count = 0; (count = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
        text.append(buffer, static_cast<std::size_t>(count));
    }
    ::close(fd);
    const auto body = text.find("\r\n\r\n");
    return {text.size() > 12 ? std::atoi(text.c_str() + 9) : 0,
            body == std::string::npos ? "" : text.substr(body + 4)};
  }
};

TEST_F(TokenCluster, ServesPagesOnlyWithToken) {
  start_head({"--num-cpus", "4", "--http", "127.0.0.1:0"});
  const std::string file = http().value("token_file", "");
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0) << file;
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  std::string own = read_text(file);
  own.pop_back();
  EXPECT_EQ(page("/healthz"), (std::pair{200, std::string("up\n")}));
  EXPECT_EQ(page("/readyz").first, 200);
  EXPECT_EQ(page("/api/v1/nodes").first, 401);
  for (const char* kind : {"nodes", "jobs", "actors", "objects", "leases", "executors",
                           "placement-groups", "tasks", "transfers"}) {
    const auto [code, body] = page(std::string("/api/v1/") + kind, own);
    EXPECT_EQ(code, 200) << kind << body;
    EXPECT_EQ(Json::parse(body), Json::parse(mobula({"list", kind, "-o", "json"}).out)) << kind;
  }
  EXPECT_EQ(Json::parse(page("/api/v1/summary", own).second),
            Json::parse(mobula({"summary", "-o", "json"}).out));
  EXPECT_EQ(page("/api/v1/status", own).first, 200);
  EXPECT_EQ(page("/api/v1/memory", own).first, 200);
  EXPECT_EQ(page("/api/v1/nodes/" + node_id("a"), own).first, 200);
  EXPECT_EQ(page("/api/v1/nodes/ffffffff", own).first, 404);
  EXPECT_EQ(page("/api/v1/unicorns", own).first, 404);
  // Neither a page nor a log contains the token.
  EXPECT_EQ(read_text(state_of("a") + "/default/head/head.log").find(own), std::string::npos);
}

TEST_F(TokenCluster, JoinToken_AdmitsOneMachineAcrossHeadRestart) {
  start_head();
  const std::string ticket = create("agent", "hands");
  ASSERT_TRUE(ticket.starts_with("mobula-1-")) << ticket;
  const Ended joined = mobula({"start", "--join", ticket, "--num-cpus", "1"}, "b");
  ASSERT_EQ(joined.code, 0) << joined.err;
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return alive_nodes() == 2; }));
  const Ended second = mobula({"start", "--join", ticket, "--num-cpus", "1"}, "c");
  EXPECT_EQ(second.code, 4) << second.out;
  EXPECT_NE(second.err.find("'hands'"), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("was used by"), std::string::npos) << second.err;
  // A machine that joined with a ticket can list but not submit.
  EXPECT_EQ(mobula({"list", "nodes"}, "b").code, 0);
  EXPECT_EQ(mobula({"submit", "--no-wait", "--", "true"}, "b").code, 4);

  ::kill(head_pid(), SIGKILL);
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return !runs(head_pid()); }));
  start_head({"--no-worker"});
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] { return alive_nodes() == 2; }));
  EXPECT_EQ(mobula({"start", "--join", ticket}, "c").code, 4);
  const Ended list = mobula({"token", "list"});
  EXPECT_NE(list.out.find("USED"), std::string::npos) << list.out;
  // After the revocation, its node is no longer a member.
  EXPECT_EQ(mobula({"token", "revoke", "hands"}).code, 0);
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] { return alive_nodes() == 1; }));
  const std::string own = state_of("b") + "/default/default.key";
  EXPECT_EQ(mobula({"list", "nodes", "--address", address(), "--key", own}, "b").code, 4);
  EXPECT_EQ(mobula({"stop", "--grace", "1"}, "b").code, 0);
}

TEST_F(TokenCluster, TokenRevoked_CallsFailAndJobEnds) {
  start_head();
  const std::string wheel = create("driver", "wheel");
  auto environment = environment_of("elsewhere");
  environment["MOBULA_TOKEN"] = wheel;
  Process driver({programs + "/e2e_driver", "awaits_error"}, environment,
                 directory() + "/log/revoked");
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
    const Json list = Json::parse(mobula({"list", "leases", "-o", "json"}).out, nullptr, false);
    return list.is_object() && !list["items"].empty();
  }));
  ASSERT_EQ(mobula({"token", "revoke", "wheel"}).code, 0);
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << "it blocks although the head refuses it: " << ended.err;
  EXPECT_NE(ended.err.find("token 'wheel'"), std::string::npos) << ended.err;
  for (const char* part : {"error: ", "is lost to this driver", "refuses this machine's key"})
    EXPECT_NE(ended.out.find(part), std::string::npos) << part << ": " << ended.out;
  EXPECT_TRUE(eventually(Milliseconds(60'000), [&] {
    return mobula({"list", "jobs"}).out.find("RUNNING") == std::string::npos;
  }));
  EXPECT_NE(mobula({"events"}).out.find("TOKEN_REVOKED"), std::string::npos);
}

TEST_F(TokenCluster, RejectsNodeIdOfAnotherMachine) {
  start_head();
  const std::string first = create("agent", "first");
  const std::string second = create("agent", "second");
  ASSERT_EQ(mobula({"start", "--join", first, "--num-cpus", "1"}, "b").code, 0);
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return alive_nodes() == 2; }));
  const std::string node_file = "/default/agent/node";
  const std::string id = read_text(state_of("b") + node_file).substr(0, 32);
  // Writes the first node's id into the directory of a machine with another ticket, in the format
  // of an earlier release.
  std::filesystem::create_directories(state_of("c") + "/default/agent");
  for (const char* each : {"", "/default", "/default/agent"})
    ::chmod((state_of("c") + each).c_str(), 0700);
  std::ofstream(state_of("c") + node_file) << id << "\n";
  const Ended thief = mobula({"start", "--join", second, "--num-cpus", "1"}, "c");
  EXPECT_EQ(thief.code, 4) << thief.out << thief.err;
  EXPECT_NE(thief.err.find("belongs to the key"), std::string::npos) << thief.err;
  EXPECT_EQ(alive_nodes(), 2);
  // The original machine joins again. The other machine joins too, under its own id.
  EXPECT_EQ(mobula({"stop", "--grace", "1"}, "b").code, 0);
  EXPECT_EQ(mobula({"start", "--join", first, "--num-cpus", "1"}, "b").code, 0);
  EXPECT_EQ(read_text(state_of("b") + node_file).substr(0, 32), id);
  std::filesystem::remove(state_of("c") + node_file);
  EXPECT_EQ(mobula({"start", "--join", second, "--num-cpus", "1"}, "c").code, 0);
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] { return alive_nodes() == 3; }));
  for (const char* each : {"b", "c"}) EXPECT_EQ(mobula({"stop", "--grace", "1"}, each).code, 0);
}

TEST_F(TokenCluster, DriverToken_StopsOnlyItsOwnJobs) {
  start_head();
  const std::string wheel = create("driver", "wheel");
  const std::string other = create("driver", "other");
  ASSERT_EQ(by_token(wheel, {"submit", "--no-wait", "--name", "long", "--", "sleep", "1000"}).code,
            0);
  const Ended refused = by_token(other, {"job", "stop", "long"});
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_NE(refused.err.find("is not of 'other'"), std::string::npos) << refused.err;
  EXPECT_NE(mobula({"events"}).out.find("REQUEST_REFUSED"), std::string::npos);
  EXPECT_EQ(by_token(wheel, {"job", "stop", "long"}).code, 0);
}

TEST_F(TokenCluster, RejectsPlainHttpBeyondLoopback) {
  const Ended refused = mobula({"start", "--head", "--http", "0.0.0.0:0"}, "d");
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_NE(refused.err.find("--http-unencrypted"), std::string::npos) << refused.err;
}

TEST_F(TokenCluster, LimitsDriversAndObserversToTheirRoles) {
  start_head();
  const std::string wheel = create("driver", "wheel");
  const std::string eyes = create("observer", "eyes", {"--expires", "1h"});
  EXPECT_EQ(by_token(eyes, {"list", "nodes"}).code, 0);
  EXPECT_EQ(by_token(eyes, {"run", "--", "true"}).code, 4);
  EXPECT_EQ(by_token(eyes, {"drain", node_id("a")}).code, 4);
  EXPECT_EQ(by_token(eyes, {"token", "list"}).code, 4);
  EXPECT_EQ(by_token(wheel, {"run", "--", "sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(by_token(wheel, {"token", "create", "--role", "observer"}).code, 4);
  EXPECT_EQ(by_token(wheel, {"drain", node_id("a")}).code, 4);
  EXPECT_EQ(by_token(wheel, {"start", "--join", wheel}).code, 2);
  EXPECT_EQ(by_token(wheel.substr(0, wheel.size() - 5), {"status"}).code, 2);
  // A program on that machine joins with the token and starts its own agent.
  auto environment = environment_of("elsewhere");
  environment["MOBULA_TOKEN"] = wheel;
  Process driver({programs + "/e2e_driver", "nested", "6"}, environment,
                 directory() + "/log/by-token");
  const Ended ran = driver.wait();
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(mobula({"token", "revoke", "wheel"}).code, 0);
  EXPECT_EQ(by_token(wheel, {"status"}).code, 4);
}

}  // namespace
}  // namespace mobula::e2e
