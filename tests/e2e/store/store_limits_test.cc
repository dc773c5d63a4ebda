// Values that together exceed the node's store, and calls that wait for memory.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using StoreLimits = ClusterTest;

TEST_F(StoreLimits, ReadsVectorLargerThanTheStore) {
  const Ended ended = drive({"reads_more_than_fits", "12", "--mobula-num-cpus=2",
                             "--mobula-object-store-memory=25165824"});
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(StoreLimits, CountsLargeArgumentsAsPending) {
  const std::string pipe = testing::TempDir() + "mobula-pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process driver = start_driver({"counts_large_arguments", pipe, "--mobula-num-cpus=1",
                                 "--mobula-max-pending-bytes=8388608"});
  ASSERT_TRUE(driver.prints("refused")) << driver.err();
  // The blocked call warns with its reason, and resumes when the first call has ended.
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    return driver.err().find("remote has blocked for 3 s: arguments of pending calls have 41") !=
               std::string::npos &&
           driver.err().find("max_pending_bytes is 8388608") != std::string::npos;
  })) << driver.err();
  EXPECT_EQ(driver.out().find("accepted"), std::string::npos);
  std::ofstream(pipe) << "go" << std::endl;
  ASSERT_TRUE(driver.prints("accepted")) << driver.err();
  std::ofstream(pipe) << "go" << std::endl;
  const Ended ended = driver.wait();
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  ::unlink(pipe.c_str());
}

TEST_F(StoreLimits, CancelledWriter_DoesNotWaitForMemory) {
  const std::string file = testing::TempDir() + "mobula-outcome-" + std::to_string(::getpid());
  drive({"cancels_writers", file, "--mobula-num-cpus=2", "--mobula-object-store-memory=25165824"});
  ::unlink(file.c_str());
}

TEST_F(StoreLimits, ViewsFillStore_NextOneSaysWhy) {
  const Ended ended =
      drive({"views_fill_store", "--mobula-num-cpus=1", "--mobula-object-store-memory=25165824"});
  EXPECT_NE(ended.err.find("get has blocked for 3 s: it waits for memory"), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace mobula::e2e
