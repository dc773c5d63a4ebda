// Foreign peers, broken programs, and wrong keys receive an error, and the cluster continues to
// work.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "e2e/cluster.h"
#include "transport/raw_client.h"

namespace mobula::e2e {
namespace {

using RejectsForeignPeers = ClusterTest;

// Inodes of the sockets that a process has open.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  for (int fd = 0; fd < 512; ++fd) {
    char target[64] = {};
    const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
    if (::readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
    const std::string text(target);
    if (text.starts_with("socket:[")) inodes.insert(text.substr(8, text.size() - 9));
  }
  return inodes;
}

std::set<std::uint16_t> listening_ports(const std::set<pid_t>& processes) {
  std::set<std::string> inodes;
  for (const pid_t pid : processes) inodes.merge(sockets_of(pid));
  std::set<std::uint16_t> ports;
  std::istringstream lines(read_text("/proc/net/tcp") + read_text("/proc/net/tcp6"));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    if (state == "0A" && inodes.count(inode) > 0) {
      ports.insert(
          static_cast<std::uint16_t>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

void send_to(std::uint16_t port, const std::string& bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  ::close(fd);
}

TEST_F(RejectsForeignPeers, GarbageOnEveryPort_ChangesNothing) {
  start_head();
  const auto ports = listening_ports(processes());
  ASSERT_GE(ports.size(), 2u);  // ports of the head and of the agent
  const auto head_before = resident_bytes(head_pid());
  std::mt19937 random(1);
  std::string noise(4096, '\0');
  for (auto& c : noise) c = static_cast<char>(random());
  const std::string greeting(
      "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
      "CURVE",
      17);
  for (const auto port : ports) {
    for (int round = 0; round < 20; ++round) {
      send_to(port, noise);
      send_to(port, std::string("\xdd\x7f\xff\xff\xff"));
      send_to(port, "GET / HTTP/1.1\r\n\r\n");
      send_to(port, greeting + noise);
      send_to(port, "");
    }
  }
  drive({"hello"});
  EXPECT_EQ(alive_nodes(), 1u);
  EXPECT_LT(resident_bytes(head_pid()), head_before + (16u << 20));
}

TEST_F(RejectsForeignPeers, SilentConnections_ClusterServesOn) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;  // which head and agents raise
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  start_head();
  before.rlim_cur = before.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0", 12);
  const auto ports = listening_ports(processes());
  ASSERT_GE(ports.size(), 2u) << "head and agent listen";
  std::vector<internal::Fd> silent;
  for (const auto port : ports) {
    for (int i = 0; i < 1'000; ++i) {
      silent.push_back(internal::connect_raw("127.0.0.1:" + std::to_string(port),
                                             "127.0.0." + std::to_string(2 + i % 4)));
      if (i % 2 == 0)
        (void)::send(silent.back().get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    }
  }
  drive({"hello"});
  EXPECT_EQ(alive_nodes(), 1u);
  EXPECT_TRUE(eventually(
      Milliseconds(10'000),
      [&] { return descriptors(head_pid()) < 400 && descriptors(agent_pid("a")) < 1'500; }))
      << descriptors(head_pid()) << " descriptors of the head, " << descriptors(agent_pid("a"))
      << " of the agent";
  const Ended log = mobula({"logs", "head"});
  EXPECT_NE(log.out.find("raised the descriptor limit"), std::string::npos) << log.out << log.err;
  EXPECT_NE(log.out.find("connections from there have not proven a key"), std::string::npos)
      << log.out;
}

// The bytes of any client up to `CURVE`, then the header of a frame of 15 MiB and a part of it.
TEST_F(RejectsForeignPeers, LongHandshake_ExecutorReportsClose) {
  start_head();
  const auto of_cluster = listening_ports(processes());
  Process driver = start_driver({"stays", node_id("a")});
  ASSERT_TRUE(driver.prints("ready", Milliseconds(30'000))) << driver.err();
  std::string bytes("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17);
  bytes.resize(64, '\0');
  bytes += std::string("\6\0\0\0\0\0\xf0\0\0", 9) + std::string(1u << 20, 'x');
  std::vector<internal::Fd> open;
  for (const auto port : listening_ports(processes())) {
    if (of_cluster.contains(port)) continue;
    open.push_back(internal::connect_raw("127.0.0.1:" + std::to_string(port)));
    (void)::send(open.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  ASSERT_FALSE(open.empty()) << "executors listen";
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return driver.err().find("a frame above 32768 bytes arrived before a key was proven") !=
           std::string::npos;
  })) << driver.err();
  driver.say("go");
  (void)driver.wait();
}

// A peer with an admitted key that sends requests and never reads the replies.
TEST_F(RejectsForeignPeers, UnreadFloods_HeadContinues) {
  start_head();
  const Json key = Json::parse(read_text(state_of("a") + "/default/default.key"));
  internal::CurveKeys keys;
  keys.public_key = key["public_key"];
  keys.secret_key = key["secret_key"];
  const pid_t head = head_pid();
  for (int round = 0; round < 6; ++round) {
    internal::RawClient flood(ZMQ_DEALER, address(), "", &keys, key["head_curve_key"]);
    flood.linger(2'000);
    for (int i = 0; i < 4'000; ++i) flood.send("question");
  }
  drive({"hello"});
  EXPECT_EQ(alive_nodes(), 1u);
  EXPECT_EQ(head_pid(), head);
}

TEST_F(RejectsForeignPeers, RejectsKeyOfAnotherCluster) {
  start_head();
  auto key = Json::parse(read_text(state_of("a") + "/default/default.key"));
  const std::string other = directory() + "/other.key";
  // A well-formed key pair that the head does not know.
  key["public_key"] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
  key["secret_key"] = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
  std::ofstream(other) << key.dump();
  std::filesystem::permissions(other, std::filesystem::perms(0600));
  const Ended joined = mobula({"start", "--address", address(), "--key", other}, "b");
  EXPECT_EQ(joined.code, 4) << joined.err;
  const Ended refused = mobula({"status", "--address", address(), "--key", other}, "b");
  EXPECT_EQ(refused.code, 4) << refused.err;
}

// A driver on a machine without an agent. The driver starts its own.
class LostDrivers : public ClusterTest {
 protected:
  // Returns the final error. The state directory of "b" contains no cluster.
  std::string fails_to_join(const std::string& address, const std::string& key_file = {}) {
    auto environment = environment_of("b");
    environment["MOBULA_ADDRESS"] = address;
    if (!key_file.empty()) environment["MOBULA_KEY_FILE"] = key_file;
    const auto log = directory() + "/log/lost-driver-" + std::to_string(++drivers_);
    const Ended ended = Process({programs + "/e2e_driver", "hello"}, environment, log).wait();
    EXPECT_NE(ended.code, 0);
    return ended.out + ended.err;
  }

 private:
  int drivers_ = 0;
};

TEST_F(LostDrivers, ReportsThatNoProcessListens) {
  const auto error = fails_to_join("127.0.0.1:1");
  EXPECT_NE(error.find("no process listens at 127.0.0.1:1"), std::string::npos) << error;
  EXPECT_EQ(error.find("within 30 s"), std::string::npos) << error;
}

TEST_F(LostDrivers, ReportsProblemWithKey) {
  start_head();
  auto error = fails_to_join(address());
  EXPECT_NE(error.find("may want a key"), std::string::npos) << error;
  auto key = Json::parse(read_text(state_of("a") + "/default/default.key"));
  const std::string other = directory() + "/other.key";
  const auto save = [&] {
    std::ofstream(other) << key.dump();
    std::filesystem::permissions(other, std::filesystem::perms(0600));
  };
  key["public_key"] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
  key["secret_key"] = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
  save();
  error = fails_to_join(address(), other);
  EXPECT_NE(error.find("refuses this machine's key"), std::string::npos) << error;
  key["head_curve_key"] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
  save();
  error = fails_to_join(address(), other);
  EXPECT_NE(error.find("the key file is of another cluster"), std::string::npos) << error;
  EXPECT_EQ(error.find("within 30 s"), std::string::npos) << error;
}

TEST_F(RejectsForeignPeers, ExplainsInfeasibleRequest) {
  start_head();
  const Ended ended = mobula({"explain", R"({"num_gpus": 8})"});
  EXPECT_EQ(ended.code, 6) << ended.out << ended.err;
  EXPECT_NE((ended.out + ended.err).find("GPU"), std::string::npos);
}

}  // namespace
}  // namespace mobula::e2e
