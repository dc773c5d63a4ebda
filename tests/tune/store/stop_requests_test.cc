#include "tune/store/stop_requests.h"

#include <gmock/gmock.h>

#include <fstream>

#include "store_fixture.h"

namespace mobula::internal::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using StopRequests = StoreTest;

TEST_F(StopRequests, ReachTheControllerOnce) {
  create().reset();
  EXPECT_THAT(take_stop_requests(location_), IsEmpty());
  ASSERT_TRUE(request_stop(location_, 7).ok());
  ASSERT_TRUE(request_stop(location_, 7).ok());
  ASSERT_TRUE(request_stop(location_, std::nullopt).ok());
  EXPECT_THAT(take_stop_requests(location_),
              ElementsAre(std::nullopt, std::optional<TrialNumber>(7)));
  EXPECT_THAT(take_stop_requests(location_), IsEmpty());
}

TEST_F(StopRequests, IgnoresOtherFiles) {
  create().reset();
  ASSERT_TRUE(request_stop(location_, 1).ok());
  for (const char* name : {"-3", "1x", "99999999999999999999"}) {
    std::ofstream(location_.directory() + "/stop/" + name) << "";
  }
  EXPECT_THAT(take_stop_requests(location_), ElementsAre(std::optional<TrialNumber>(1)));
}

}  // namespace
}  // namespace mobula::internal::tune
