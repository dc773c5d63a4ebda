// Counts allocations per call in real processes, over all their threads.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

class Allocations : public ClusterTest {
 protected:
  Allocations() { more_environment["MOBULA_RECORD"] = ""; }  // recording allocates
};

TEST_F(Allocations, CallPath_AllocatesOnlyForUser) {
  start_head({"--num-cpus", "1"});  // all tasks run in one executor
  const Ended ended = drive({"allocations"});
  ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
  std::cout << ended.out;
  struct Row {
    std::string what;
    double driver, executor;  // exclusive limit per call
  };
  // The user owns the state that copies of a ref share, and options that are written at the call.
  // Other allocations grow with time, or with more concurrent calls than a thread caches memory
  // for: less than one more per call. A tensor made by one call and used by the next is held,
  // borrowed, and released, and a ref keeps it unchanged until the release (decision 110).
  for (const auto& [what, of_driver, of_executor] :
       {Row{"task", 1.9, 0.9}, Row{"task with argument", 1.9, 0.9}, Row{"actor call", 1.9, 0.9},
        Row{"actor call with argument", 1.9, 0.9}, Row{"actor calls at once", 1.9, 0.9},
        Row{"task with options", 4.9, 0.9}, Row{"actor call with options", 3.9, 0.9},
        Row{"tensor made", 4.9, 7.9}, Row{"tensor used", 4.9, 11.9}}) {
    const auto number_after = [&](const std::string& text, std::size_t from) {
      const auto at = ended.out.find(text, from);
      return at == std::string::npos ? 1e9 : std::stod(ended.out.substr(at + text.size()));
    };
    const auto line = ended.out.find(what + ": ");
    ASSERT_NE(line, std::string::npos) << what;
    EXPECT_LT(number_after("driver ", line), of_driver) << what;
    EXPECT_LT(number_after("executor ", line), of_executor) << what;
  }
}

}  // namespace
}  // namespace mobula::e2e
