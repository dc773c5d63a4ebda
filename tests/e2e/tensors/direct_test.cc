// Tensors that stay in their producer until a reader needs them, between real processes.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Direct = ClusterTest;

TEST_F(Direct, SharesMemoryOnSameHost) { drive({"direct_tensors", "shm", "--mobula-num-cpus=2"}); }

TEST_F(Direct, UsesOnlyNamedTransport) { drive({"direct_paths", "--mobula-num-cpus=2"}); }

TEST_F(Direct, RejectsWritesWhileReadersExist) { drive({"direct_sharing", "--mobula-num-cpus=2"}); }

TEST_F(Direct, ReturnsSameMemoryToProducer) {
  drive({"direct_same_memory", "--mobula-num-cpus=2"});
}

// Warnings for the producer appear in the log of its slot.
TEST_F(Direct, AllowsSnapshotsAndWritesByPolicy) {
  start_head({"--num-cpus", "2"});
  drive({"direct_policies"});
  std::map<std::string, int> warnings;  // by file
  for (const auto& each : std::filesystem::recursive_directory_iterator(directory())) {
    if (!each.is_regular_file() || each.path().string().find("log") == std::string::npos) continue;
    std::ifstream file(each.path());
    for (std::string line; std::getline(file, line);) {
      if (line.find("others may see the change") != std::string::npos)
        ++warnings[each.path().filename()];
    }
  }
  EXPECT_FALSE(warnings.empty());
  for (const auto& [name, count] : warnings)
    EXPECT_EQ(count, 2) << name << ": once for each that is shared";
}

TEST_F(Direct, DetectsMutationWhenChecksEnabled) {
  more_environment["MOBULA_CHECK_TENSORS"] = "1";
  drive({"direct_checked", "--mobula-num-cpus=2"});
}

TEST_F(Direct, HolderExitsPlanned_TensorsSurvive) { drive({"direct_ends", "--mobula-num-cpus=3"}); }

TEST_F(Direct, TransfersBetweenNodes) {
  start_head({"--num-cpus", "2"});
  start_node("b", {"--num-cpus", "2", "--resources", R"({"there": 1})"});
  drive({"direct_tensors", "shm", "there"});
}

TEST_F(Direct, Readers_RelayLargeTensors) {
  start_head({"--num-cpus", "1", "--resources", R"({"a": 9})"});
  for (const std::string name : {"b", "c", "d"}) {
    start_node(name, {"--num-cpus", "1", "--resources", "{\"" + name + "\": 9}"});
  }
  drive({"direct_broadcast"}, Milliseconds(150'000));
}

}  // namespace
}  // namespace mobula::e2e
