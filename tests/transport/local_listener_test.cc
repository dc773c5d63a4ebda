#include "transport/local/local_listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "transport/bytes_fixture.h"
#include "transport/child_fixture.h"
#include "transport/local/local_link.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

class LocalListenerTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<LocalListener>> listen(const std::string& path) {
    return LocalListener::open(*loop_, path,
                               [this](Fd socket) { accepted_.push_back(std::move(socket)); });
  }

  const TemporaryDirectory directory_;
  const std::unique_ptr<EventLoop> loop_ = make_loop();
  std::vector<Fd> accepted_;
};

using LocalListenerAddresses = LocalListenerTest;

TEST_F(LocalListenerAddresses, AcceptsInPrivateDirectory) {
  const std::string path = directory_.file("run/agent.sock");
  auto listener = listen(path).value();
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(directory_.file("run")), 0700u);
  const Fd client = connect_local(path).value();
  ASSERT_TRUE(turn_until(*loop_, [&] { return accepted_.size() == 1; }));
  EXPECT_EQ(credentials_of(accepted_[0])->pid, ::getpid());
  listener.reset();
  EXPECT_EQ(::access(path.c_str(), F_OK), -1) << "the listener removes its socket file";
  EXPECT_EQ(connect_local(path).error().code, ErrorCode::not_found);
}

TEST_F(LocalListenerAddresses, RejectsOverlongPathWithItsLength) {
  const std::string path = directory_.file(std::string(120, 'x'));
  const Failure why = listen(path).error();
  EXPECT_EQ(why.code, ErrorCode::invalid_argument);
  EXPECT_NE(why.text.find(std::to_string(path.size())), std::string::npos);
  EXPECT_NE(why.text.find("107"), std::string::npos);
  EXPECT_EQ(connect_local(path).error().code, ErrorCode::invalid_argument);
  const std::string longest = directory_.file(std::string(107 - directory_.path().size() - 1, 'x'));
  EXPECT_TRUE(listen(longest).ok());
}

TEST_F(LocalListenerAddresses, RejectsDirectoryOpenToOthers) {
  ASSERT_EQ(::mkdir(directory_.file("open").c_str(), 0755), 0);
  const Failure why = listen(directory_.file("open/agent.sock")).error();
  EXPECT_EQ(why.code, ErrorCode::permission_denied);
  EXPECT_NE(why.text.find("chmod 700"), std::string::npos);
}

TEST_F(LocalListenerAddresses, SparesLiveSocketAndOtherFiles) {
  const std::string path = directory_.file("agent.sock");
  const auto first = listen(path).value();
  EXPECT_EQ(listen(path).error().code, ErrorCode::already_exists);
  EXPECT_TRUE(connect_local(path).ok());
  std::ofstream(directory_.file("file")) << "text";
  EXPECT_EQ(listen(directory_.file("file")).error().code, ErrorCode::already_exists);
}

TEST_F(LocalListenerAddresses, ReplacesSocketOfKilledProcess) {
  const std::string path = directory_.file("agent.sock");
  Child child([&] {
    const auto loop = make_loop();
    const auto listener = LocalListener::open(*loop, path, [](Fd) {}).value();
    loop->run();
  });
  ASSERT_TRUE(turn_until(*loop_, [&] { return connect_local(path).ok(); }));
  child.kill();
  EXPECT_EQ(connect_local(path).error().code, ErrorCode::unavailable);
  const auto listener = listen(path).value();
  EXPECT_TRUE(connect_local(path).ok());
}

TEST_F(LocalListenerAddresses, Owner_MayDestroyListenerInCallback) {
  std::unique_ptr<LocalListener> listener;
  int calls = 0;
  listener = LocalListener::open(*loop_, directory_.file("agent.sock"), [&](Fd) {
               ++calls;
               listener.reset();
             }).value();
  const Fd first = connect_local(listener->path()).value();
  const Fd second = connect_local(listener->path()).value();
  ASSERT_TRUE(turn_until(*loop_, [&] { return listener == nullptr; }));
  EXPECT_EQ(calls, 1);
}

TEST_F(LocalListenerAddresses, RejectsListenerOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to listen as another user";
  const std::string path = directory_.file("taken.sock");
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  const auto pipe = make_local_pair().value();
  Child child([&] {
    if (::setresuid(12'345, 12'345, 12'345) != 0) return;
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return;
    if (::listen(socket.get(), 1) != 0) return;
    (void)send_frame(pipe.second, bytes_of("listens"), {}, monotonic_now() + 10s);
    ::pause();
  });
  ASSERT_TRUE(receive_frame(pipe.first, monotonic_now() + 10s).ok());
  const auto connected = connect_local(path);
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, ErrorCode::permission_denied);
  EXPECT_NE(connected.error().text.find("belongs to user 12345"), std::string::npos)
      << connected.error().text;
}

}  // namespace
}  // namespace mobula::internal
