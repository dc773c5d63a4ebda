// Checkpoints of trials on nodes with and without the storage of the experiment.
#include "tune/runtime/trial/trial_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tune/store/store_fixture.h"

namespace mobula::internal::tune {
namespace {

using testing::HasSubstr;

using TrialFiles = StoreTest;

TEST_F(TrialFiles, NodeWithoutStorage_NamesOption) {
  const std::string experiment = location_.directory();
  const auto fault = check_shared_storage(experiment + "/checkpoints");
  ASSERT_FALSE(fault.ok());
  EXPECT_EQ(fault.error().code, ErrorCode::unavailable);
  EXPECT_THAT(fault.error().text, HasSubstr(experiment));
  EXPECT_THAT(fault.error().text, HasSubstr("RunOptions::storage_path that all nodes see"));
  std::filesystem::create_directories(experiment);
  std::ofstream(location_.file()).put('x');
  EXPECT_TRUE(check_shared_storage(location_.checkpoints()).ok());
}

TEST_F(TrialFiles, CheckpointOfAnotherNode_IsNamed) {
  const std::string path = location_.checkpoints() + "/000001-1-000003";
  EXPECT_THAT(check_checkpoint(path).error().text, HasSubstr(path + ": no such directory"));
  std::filesystem::create_directories(path);
  EXPECT_TRUE(check_checkpoint(path).ok());
}

}  // namespace
}  // namespace mobula::internal::tune
