#include "cli/find_cluster.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/commands/start/stop.h"
#include "cli/exit_code.h"

namespace mobula::internal::cli {
namespace {

namespace fs = std::filesystem;

class FindCluster : public ::testing::Test {
 protected:
  FindCluster() {
    std::string pattern = (fs::temp_directory_path() / "mobula-find-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~FindCluster() override {
    ::chmod(directory_.c_str(), 0700);
    fs::remove_all(directory_);
  }

  std::string directory_;
};

TEST_F(FindCluster, InvalidKeyFile_IsUsageError) {
  ASSERT_TRUE(write_file(directory_ + "/text", "no key\n", 0644).ok());
  for (const std::string& path : {directory_, directory_ + "/text", directory_ + "/none"}) {
    CommandLine line;
    line.state_dir = directory_;
    line.address = "127.0.0.1:1";
    line.key_file = path;
    const auto found = find_cluster(line);
    ASSERT_FALSE(found.ok()) << path;
    EXPECT_EQ(exit_code_of(found.error()), exit_wrong_use) << found.error().text;
  }
}

TEST_F(FindCluster, UnreadableStateDirectory_IsReported) {
  ASSERT_EQ(::chmod(directory_.c_str(), 0), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t nobody = 65'534;  // root may read every file
    if (::geteuid() == 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(1);
    CommandLine line;
    line.state_dir = directory_;
    const auto found = find_cluster(line);
    const bool report = !found && found.error().code == ErrorCode::permission_denied &&
                        found.error().text.find(directory_) != std::string::npos &&
                        why_closed(directory_);
    ::_exit(report ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(why_closed(directory_ + "/none"));
}

// The state directory is accessible, and the cluster's directory in it is not.
TEST_F(FindCluster, NamesClusterDirectoryOfAnotherUser) {
  const std::string cluster = directory_ + "/default";
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(cluster.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((cluster + "/head").c_str(), 0700), 0);
  if (::geteuid() != 0) ASSERT_EQ(::chmod(cluster.c_str(), 0), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t nobody = 65'534;
    if (::geteuid() == 0 && ::setresuid(nobody, nobody, nobody) != 0) ::_exit(1);
    CommandLine line;
    line.state_dir = directory_;
    const auto found = find_cluster(line);
    const bool named = !found && found.error().code == ErrorCode::permission_denied &&
                       found.error().text.find(cluster) != std::string::npos;
    if (!named) ::_exit(2);
    ::_exit(stop(line) == exit_refused ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::chmod(cluster.c_str(), 0700);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace mobula::internal::cli
