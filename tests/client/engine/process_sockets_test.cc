// The addresses of a process, and the bus that takes them over.
#include "transport/bus/process_sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/check.h"

namespace mobula::internal::client {
namespace {

using namespace std::chrono_literals;

// Limits this process to `left` further descriptors.
class Descriptors {
 public:
  explicit Descriptors(std::size_t left) {
    MOBULA_CHECK(::getrlimit(RLIMIT_NOFILE, &before_) == 0, "getrlimit");
    rlimit low = before_;
    low.rlim_cur = 256;
    MOBULA_CHECK(::setrlimit(RLIMIT_NOFILE, &low) == 0, "setrlimit");
    for (Fd each(::open("/dev/null", O_RDONLY | O_CLOEXEC)); each;
         each = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC))) {
      fill_.push_back(std::move(each));
    }
    fill_.resize(fill_.size() - left);
  }
  ~Descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  static std::size_t count() {
    std::size_t seen = 0;
    DIR* const directory = ::opendir("/proc/self/fd");
    while (::readdir(directory) != nullptr) ++seen;
    ::closedir(directory);
    return seen;
  }

 private:
  rlimit before_{};
  std::vector<Fd> fill_;
};

class ProcessSocketsTest : public ::testing::Test {
 protected:
  ProcessSocketsTest() {
    std::string directory =
        std::filesystem::temp_directory_path().string() + "/mobula-sockets-XXXXXX";
    MOBULA_CHECK(::mkdtemp(directory.data()) != nullptr, "mkdtemp");
    directory_ = directory;
  }
  ~ProcessSocketsTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<ProcessSockets> open(const std::string& name) {
    return ProcessSockets::open(
               {CurveKeys::generate().value(), directory_ + "/" + name, "127.0.0.1:0"})
        .value();
  }

  static bool makes_bus(ProcessSockets& sockets) {
    bool made = false;
    EXPECT_TRUE(sockets.thread().run([&] { made = sockets.bus().ok(); }).ok());
    return made;
  }

  // True if a message that another process sends to `address` arrives.
  static bool hears(ProcessSockets& sockets, const std::string& address) {
    std::atomic<int> received{0};
    BusCallbacks callbacks;
    callbacks.on_message = [&](PeerHandle, const PeerOrigin&, std::span<const std::byte>) {
      ++received;
    };
    EXPECT_TRUE(sockets.thread().run([&] { sockets.serve(std::move(callbacks)); }).ok());
    const auto thread = LoopThread::start().value();
    AllowTable allow(UnknownKeys::unproven);
    std::unique_ptr<Bus> other;
    EXPECT_TRUE(thread
                    ->run([&] {
                      BusOptions options;
                      options.keys = CurveKeys::generate().value();
                      options.allow = &allow;
                      other = Bus::create(thread->loop(), std::move(options), {}).value();
                      const auto peer =
                          other->connect(address, sockets.endpoint().public_key).value();
                      const std::byte word{1};
                      EXPECT_TRUE(other->send(peer, {&word, 1}).ok());
                    })
                    .ok());
    for (const Time until = monotonic_now() + 20s; received == 0 && monotonic_now() < until;)
      std::this_thread::yield();
    EXPECT_TRUE(thread->run([&] { other.reset(); }).ok());
    EXPECT_TRUE(sockets.thread().run([&] { sockets.serve({}); }).ok());
    return received > 0;
  }

  std::string directory_;
};

TEST_F(ProcessSocketsTest, AcceptsAtBothAddresses) {
  const auto sockets = open("both");
  EXPECT_TRUE(hears(*sockets, sockets->endpoint().local));
  EXPECT_TRUE(hears(*sockets, sockets->endpoint().address));
}

// The bus is created, and then there are descriptors for at most one of the addresses.
TEST_F(ProcessSocketsTest, BusCreationFailed_SocketsStillAccept) {
  std::size_t of_bus = 0;
  {
    const auto measured = open("measured");
    const std::size_t before = Descriptors::count();
    ASSERT_TRUE(makes_bus(*measured));
    of_bus = Descriptors::count() - before;
  }
  for (std::size_t left = of_bus; left < of_bus + 2; ++left) {
    const auto sockets = open("short" + std::to_string(left));
    {
      const Descriptors few(left);
      EXPECT_FALSE(makes_bus(*sockets));
    }
    EXPECT_TRUE(hears(*sockets, sockets->endpoint().local));
    EXPECT_TRUE(hears(*sockets, sockets->endpoint().address));
  }
  const auto sockets = open("enough");
  const Descriptors few(of_bus + 2);
  EXPECT_TRUE(makes_bus(*sockets));
}

}  // namespace
}  // namespace mobula::internal::client
