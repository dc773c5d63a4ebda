// What errors say, and which calls they end.
#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using Errors = ClusterTest;

TEST_F(Errors, EndsBlockedCallsWhenTaskIsCancelled) { drive({"cancels_blocked", "--mobula-num-cpus=4"}); }

TEST_F(Errors, RefusesForceForCallsOfActors) { drive({"force_cancels_actor_call", "--mobula-num-cpus=3"}); }

TEST_F(Errors, InExecutorIsTrueInTasksAndActors) { drive({"knows_executor", "--mobula-num-cpus=2"}); }

TEST_F(Errors, NamesTaskNodeAndProcess) { drive({"names_task", "--mobula-num-cpus=1"}); }

TEST_F(Errors, ConstructorThrows_EveryCallHasTheCause) { drive({"constructor_throws", "--mobula-num-cpus=2"}); }

TEST_F(Errors, ProcessDies_ErrorHasItsLastOutput) { drive({"tells_last_output", "--mobula-num-cpus=1"}); }

}  // namespace
}  // namespace mobula::e2e
