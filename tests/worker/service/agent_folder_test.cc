// State in an agent's directory that the next agent finds.
#include "worker/agent_state_dir.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace mobula::internal::worker {
namespace {

class AgentFolderTest : public testing::Test {
 protected:
  AgentFolderTest() {
    std::string name = std::filesystem::temp_directory_path() / "mobula-folder-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~AgentFolderTest() override { std::filesystem::remove_all(folder_); }
  Result<NodeId> id(const std::string& key) {
    return AgentStateDir::take(folder_ + "/agent")->node_id(key);
  }

  std::string folder_;
};

TEST_F(AgentFolderTest, DerivesStableNodeIdFromKey) {
  const NodeId first = id("one").value();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(id("one").value(), first);
  const NodeId second = id("two").value();
  EXPECT_NE(second, first);
  EXPECT_EQ(id("two").value(), second);
  const NodeId keyless = id("").value();
  EXPECT_NE(keyless, second);
  EXPECT_EQ(id("").value(), keyless);
}

TEST_F(AgentFolderTest, KeepsNodeIdOfEarlierRelease) {
  const NodeId old = NodeId::random();
  ASSERT_TRUE(AgentStateDir::take(folder_ + "/agent").ok());
  ASSERT_TRUE(write_file(folder_ + "/agent/node", old.hex() + "\n", 0600).ok());
  EXPECT_EQ(id("one").value(), old);
  EXPECT_EQ(id("one").value(), old);
  EXPECT_NE(id("two").value(), old);
  ASSERT_TRUE(write_file(folder_ + "/agent/node", "no id\n", 0600).ok());
  EXPECT_EQ(id("one").error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal::worker
