#include "client/init/agent_greeting.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "transport/local/local_frame.h"

namespace mobula::internal::runtime {
namespace {

using ::testing::HasSubstr;

// A listener at a socket path, which treats one connection as `act` does.
class AgentGreetings : public ::testing::Test {
 protected:
  AgentGreetings() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mobula-greet-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/agent.sock";
  }
  ~AgentGreetings() override { std::filesystem::remove_all(directory_); }

  Fd listen() const {
    Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    EXPECT_EQ(::listen(listener.get(), 4), 0);
    return listener;
  }
  Result<AgentGreeting> greet(Duration timeout = 10s) { return greet_agent(path_, {}, timeout); }
  // The error when the peer receives the request and then acts.
  std::string error_when(const std::function<void(const Fd&)>& act, Duration timeout = 10s) {
    const Fd listener = listen();
    std::thread peer([&] {
      const Fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)receive_frame(connection, monotonic_now() + 10s);
      act(connection);
    });
    const auto greeting = greet(timeout);
    peer.join();
    return greeting ? "attached" : greeting.error().text;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(AgentGreetings, NoListener_NamesTheExit) {
  const auto missing = greet();
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text, HasSubstr("attach to the agent at " + path_ + ": connect to"));
  EXPECT_THAT(missing.error().text, HasSubstr("the agent has exited or restarts"));
  listen();  // closed immediately; the file stays
  const auto stale = greet();
  ASSERT_FALSE(stale);
  EXPECT_THAT(stale.error().text, HasSubstr("the agent has exited or restarts"));
}

TEST_F(AgentGreetings, AgentDiesBeforeReply_NamesTheExit) {
  const auto text = error_when([](const Fd&) {});
  EXPECT_THAT(text, HasSubstr(path_ + ": the connection was closed before the reply"));
  EXPECT_THAT(text, HasSubstr("the agent has exited or restarts"));
}

TEST_F(AgentGreetings, NoHandshake_NamesTheSilence) {
  const Fd listener = listen();  // the kernel accepts, and no process replies
  const auto silent = greet(20ms);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::timed_out);
  EXPECT_THAT(silent.error().text,
              HasSubstr("accepted the connection and sent no reply within 0.02 s"));
}

TEST_F(AgentGreetings, OtherProgram_NamesTheListener) {
  const auto text = error_when([](const Fd& connection) {
    const std::string banner = "SSH-2.0-OpenSSH_9.2p1 Debian\r\n";
    EXPECT_EQ(::write(connection.get(), banner.data(), banner.size()),
              static_cast<ssize_t>(banner.size()));
  });
  EXPECT_THAT(text, HasSubstr("the listener is another program"));
  std::filesystem::remove(path_);
  const auto other = error_when([](const Fd& connection) {
    (void)send_frame(connection, encode(AgentToProcess(JobFinished{})), {}, monotonic_now() + 10s);
  });
  EXPECT_THAT(other, HasSubstr("the reply is another message"));
}

TEST_F(AgentGreetings, Rejection_KeepsTheReasonOfTheAgent) {
  const auto text = error_when([](const Fd& connection) {
    (void)send_frame(
        connection,
        encode(AgentToProcess(AttachRefused{ErrorCode::permission_denied, "the node drains"})), {},
        monotonic_now() + 10s);
  });
  EXPECT_EQ(text, "the agent refused this driver: the node drains");
}

TEST_F(AgentGreetings, ReturnsTheAttachedSocket) {
  const auto text = error_when([](const Fd& connection) {
    (void)send_frame(connection, encode(AgentToProcess(DriverAttached{})), {},
                     monotonic_now() + 10s);
  });
  EXPECT_EQ(text, "attached");
}

}  // namespace
}  // namespace mobula::internal::runtime
