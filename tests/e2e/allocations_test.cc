// What a call allocates in real processes, all their threads together.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Allocations : public ClusterTest {
 protected:
  Allocations() { more_environment["MOBULA_RECORD"] = ""; }  // recording allocates
};

TEST_F(Allocations, OfACallAreTheUsersOwnAlone) {
  start_head({"--num-cpus", "1"});  // so that all tasks are in one executor
  const Ended ended = drive({"allocations"});
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  std::cout << ended.out;
  for (const std::string what : {"task", "task with argument", "actor call", "actor call with argument",
                                 "actor calls at once"}) {
    const auto number_after = [&](const std::string& text, std::size_t from) {
      const auto at = ended.out.find(text, from);
      return at == std::string::npos ? 1e9 : std::stod(ended.out.substr(at + text.size()));
    };
    const auto line = ended.out.find(what + ": ");
    ASSERT_NE(line, std::string::npos) << what;
    // The state that the copies of a ref share is the user's. What else there is comes with time, or with
    // more at once than a thread keeps memory for: less than one more for each call.
    EXPECT_LT(number_after("driver ", line), 1.9) << what;
    EXPECT_LT(number_after("executor ", line), 0.9) << what;
  }
}

}  // namespace
}  // namespace mobula::e2e
