// State in an agent's directory that the next agent finds.
#include "worker/agent_state_dir.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace mobula::internal::worker {
namespace {

class AgentStateDirTest : public testing::Test {
 protected:
  AgentStateDirTest() {
    std::string name = std::filesystem::temp_directory_path() / "mobula-folder-XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~AgentStateDirTest() override { std::filesystem::remove_all(directory_); }
  Result<NodeId> id(const std::string& key) {
    return AgentStateDir::take(directory_ + "/agent")->node_id(key);
  }

  std::string directory_;
};

TEST_F(AgentStateDirTest, DerivesStableNodeIdFromKey) {
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

TEST_F(AgentStateDirTest, KeepsNodeIdOfEarlierRelease) {
  const NodeId old = NodeId::random();
  ASSERT_TRUE(AgentStateDir::take(directory_ + "/agent").ok());
  ASSERT_TRUE(write_file(directory_ + "/agent/node", old.hex() + "\n", 0600).ok());
  EXPECT_EQ(id("one").value(), old);
  EXPECT_EQ(id("one").value(), old);
  EXPECT_NE(id("two").value(), old);
  ASSERT_TRUE(write_file(directory_ + "/agent/node", "no id\n", 0600).ok());
  EXPECT_EQ(id("one").error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal::worker
