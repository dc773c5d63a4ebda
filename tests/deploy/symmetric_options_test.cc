#include "cli/commands/start/symmetric_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SymmetricOptions, SeparatesOwnFlagsFromOthers) {
  const auto options = parse_symmetric({"--num-cpus", "2", "--rank=1", "--size", "3", "--labels",
                                        "a=b", "--wait", "1.5", "--", "program", "--rank", "--"});
  ASSERT_TRUE(options) << options.error().text;
  EXPECT_EQ(options->position.rank, 1);
  EXPECT_EQ(options->position.size, 3);
  EXPECT_EQ(options->join_timeout, 1500ms);
  EXPECT_THAT(options->node_flags, ElementsAre("--num-cpus", "2", "--labels", "a=b"));
  EXPECT_THAT(options->program, ElementsAre("program", "--rank", "--"));
}

TEST(SymmetricOptions, NamesInvalidOption) {
  EXPECT_THAT(parse_symmetric({"--num-cpus", "2"}).error().text, HasSubstr("no program"));
  EXPECT_THAT(parse_symmetric({"--"}).error().text, HasSubstr("no program"));
  EXPECT_THAT(parse_symmetric({"--rank", "--", "p"}).error().text,
              HasSubstr("--rank needs a value"));
  EXPECT_THAT(parse_symmetric({"--rank=-1", "--", "p"}).error().text, HasSubstr("'-1'"));
  EXPECT_THAT(parse_symmetric({"--wait", "soon", "--", "p"}).error().text, HasSubstr("'soon'"));
  EXPECT_THAT(parse_symmetric({"--head", "--", "p"}).error().text, HasSubstr("--head"));
}

}  // namespace
}  // namespace mobula::internal::cli
