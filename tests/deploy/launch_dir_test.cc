#include "deploy/launch_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/time.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;

TEST(LaunchDir, KeepsPrivateAndRemovesContents) {
  std::string path;
  {
    auto directory = LaunchDir::make();
    ASSERT_TRUE(directory.ok());
    path = directory->path();
    EXPECT_EQ(fs::status(path).permissions() & fs::perms::mask, fs::perms::owner_all);
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/file") << "x";
    const LaunchDir moved = std::move(*directory);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(LaunchDir, RemovesDirectoryDespiteWriter) {
  std::string path;
  std::thread writer;
  std::atomic<bool> writes{false};
  {
    auto directory = LaunchDir::make();
    ASSERT_TRUE(directory.ok());
    path = directory->path();
    fs::create_directories(path + "/state");
    writer = std::thread([&, at = path + "/state/"] {
      const Time until = monotonic_now() + 300ms;
      for (int i = 0; monotonic_now() < until; ++i) {
        std::ofstream(at + std::to_string(i)) << "x";  // only while the directory exists
        writes = true;
      }
    });
    while (!writes) std::this_thread::yield();
  }
  writer.join();
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace mobula::internal::deploy
