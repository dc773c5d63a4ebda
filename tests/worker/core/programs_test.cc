// Files of a program stay on the node of its driver while something may start the program again.
#include <gtest/gtest.h>

#include "worker/core/agents.h"
#include "worker/core/programs.h"

namespace mobula::internal::worker::programs {
namespace {

constexpr LinkId driver_link = 1;
const JobId job = JobId::of(3);

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() : agent_(world_.add()) {
    program_.id = ProgramId::of(5);
    program_.source = agent_.node();
    agent_.driver(driver_link, job);
    StartJob start;
    start.program = program_;
    agent_.say(driver_link, ForHead{std::move(start)});
    world_.settle();
    EXPECT_EQ(agent_.did<AddProgram>().size(), 1u);
  }

  void driver_ends() {
    agent_.step(ProcessLinkLost{.link = driver_link, .exited = true, .cause = {}});
    world_.settle();
  }
  std::size_t forgotten() {
    world_.settle();
    return agent_.did<ForgetProgram>().size();
  }
  std::vector<JobId> stated_jobs() {
    agent_.from_head(FactsRequest{});
    world_.settle();
    const auto stated = agent_.sent<FactsReply>();
    return stated.empty() ? std::vector<JobId>() : stated.back().facts.jobs;
  }

  Agents world_;
  Agent& agent_;
  ProgramRecord program_;
};

TEST_F(ProgramsTest, JobEnds_FilesAreForgotten) {
  agent_.from_head(JobEnded{job, {}, false});
  EXPECT_EQ(forgotten(), 0u) << "the driver may start another job";
  driver_ends();
  EXPECT_EQ(forgotten(), 1u);
}

TEST_F(ProgramsTest, DetachedActorsLive_FilesStay) {
  driver_ends();
  agent_.from_head(JobEnded{job, {}, true});
  world_.advance(std::chrono::hours(1));
  EXPECT_EQ(forgotten(), 0u);
  EXPECT_EQ(stated_jobs(), std::vector<JobId>{job}) << "the head can report an end that was lost";
  agent_.from_head(JobEnded{job, {}, false});
  EXPECT_EQ(forgotten(), 1u);
}

TEST_F(ProgramsTest, JobLingersBeforeDriverEnds_FilesStay) {
  agent_.from_head(JobEnded{job, {}, true});
  world_.settle();
  driver_ends();
  world_.advance(std::chrono::hours(1));
  EXPECT_EQ(forgotten(), 0u);
}

TEST_F(ProgramsTest, HeadReportsNoEnd_FilesAreForgottenLater) {
  driver_ends();
  world_.advance(Programs::end_grace - 1s);
  EXPECT_EQ(forgotten(), 0u) << "the head may not know the end of the job yet";
  world_.advance(2s);
  EXPECT_EQ(forgotten(), 1u);
}

}  // namespace
}  // namespace mobula::internal::worker::programs
