// docs/api.md, section 4: errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "contract/local_cluster.h"
#include "contract/rule.h"

namespace mobula::contract::errors {
namespace {

using mobula::testing::got;

template <class E>
E error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    return error;
  }
  throw std::logic_error("nothing of this class was thrown");
}

TEST(ContractErrors, AllDeriveFromError) {
  const auto derives = []<class... E>() { return (std::is_base_of_v<Error, E> && ...); };
  EXPECT_TRUE(
      (derives.
       operator()<NotInitializedError, InvalidRequestError, NotFoundError, PendingLimitError,
                  UnschedulableError, TaskError, TaskCancelledError, WorkerCrashedError,
                  OutOfMemoryError, ActorDiedError, ActorUnavailableError, ObjectLostError,
                  GetTimeoutError, ObjectStoreFullError, TransferError, TensorSharedError,
                  PlacementGroupRemovedError, ConnectionError, PermissionError,
                  ProtocolMismatchError, CollectiveError, SerializationError, InterruptedError>()));
  static_assert(std::is_base_of_v<std::exception, Error>);
}

int one() { return 1; }
TEST(ContractErrors, InvalidRequestNamesFieldAndRule) {
  const auto error = error_of<InvalidRequestError>(
      [] { (void)mobula::task<one>.options({.num_gpus = 1.5}).remote(); });
  EXPECT_EQ(error.field(), "num_gpus");
  EXPECT_FALSE(error.rule().empty());
  EXPECT_NE(std::string(error.what()).find("1.5"), std::string::npos) << error.what();
}

TEST(ContractErrors, UnschedulableNamesTheResource) {
  const auto error = error_of<UnschedulableError>(
      [] { got(mobula::task<one>.options({.num_gpus = 64}).remote()); });
  EXPECT_NE(std::string(error.what()).find("GPU"), std::string::npos) << error.what();
  expect_rule("4.unschedulableerror-1", [&] { return error.resource() == "GPU"; });
}

std::string missing_for(const TaskOptions& options) {
  return error_of<UnschedulableError>([&] { got(mobula::task<one>.options(options).remote()); })
      .resource();
}

TEST(ContractErrors, UnschedulableNamesEachKindOfResource) {
  EXPECT_EQ(missing_for({.num_cpus = 64}), "CPU");
  EXPECT_EQ(missing_for({.memory = std::int64_t{1} << 45}), "memory");
  EXPECT_EQ(missing_for({.resources = {{"teapot", 1}}}), "teapot");
  EXPECT_EQ(missing_for({.resources = {{"shuttle", 3}}}), "shuttle")
      << "beyond the quota of the job";
  EXPECT_EQ(missing_for({.num_gpus = 1, .accelerator_type = "A100"}), "accelerator_type:A100");
  EXPECT_EQ(missing_for({.label_selector = {{"zone", "b"}}}), "") << "no resource is the reason";
}

int fails(int x) { throw std::invalid_argument("x is " + std::to_string(x)); }
int calls_failing() { return got(mobula::task<fails>.remote(3)); }

TEST(ContractErrors, TaskErrorsCarryTheirFacts) {
  const auto result = mobula::try_get(mobula::task<fails>.remote(2), mobula::testing::wait_timeout);
  ASSERT_FALSE(result.has_value());
  const auto* error = dynamic_cast<const TaskError*>(&result.error());
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->remote_type(), "std::invalid_argument");
  EXPECT_EQ(error->message(), "x is 2");
  EXPECT_EQ(error->node_id(), mobula::nodes().at(0).node_id);
  EXPECT_GT(error->pid(), 0);
  EXPECT_NE(error->task().find("fails"), std::string::npos);
  EXPECT_EQ(error->task_id().size(), 32u);
}

TEST(ContractErrors, TaskErrorsNestTheirCause) {
  const auto result =
      mobula::try_get(mobula::task<calls_failing>.remote(), mobula::testing::wait_timeout);
  ASSERT_FALSE(result.has_value());
  const auto* error = dynamic_cast<const TaskError*>(&result.error());
  ASSERT_NE(error, nullptr) << result.error().what();
  EXPECT_NE(error->cause(), nullptr);
  EXPECT_THROW(got(mobula::task<calls_failing>.remote()), std::invalid_argument);
}

int crashes() {
  std::cerr << "these are its last words" << std::endl;
  ::kill(::getpid(), SIGKILL);
  return 0;
}
int exits() { ::_exit(42); }

TEST(ContractErrors, CrashesNameSignalCodeAndLog) {
  const auto killed = error_of<WorkerCrashedError>(
      [] { got(mobula::task<crashes>.options({.max_retries = 0}).remote()); });
  EXPECT_EQ(killed.signal(), SIGKILL);
  EXPECT_NE(killed.log_tail().find("these are its last words"), std::string::npos)
      << killed.log_tail();
  const auto left = error_of<WorkerCrashedError>(
      [] { got(mobula::task<exits>.options({.max_retries = 0}).remote()); });
  EXPECT_EQ(left.exit_code(), 42);
  EXPECT_EQ(left.signal(), 0);
}

class Mortal {
 public:
  explicit Mortal(bool fails = false) {
    if (fails) throw std::runtime_error("cannot be made");
  }
  int value() { return 1; }
  void die() { ::kill(::getpid(), SIGKILL); }
};

TEST(ContractErrors, ActorDeathNamesTheActor) {
  const auto mortal = mobula::actor<Mortal>.remote();
  EXPECT_EQ(got(mortal.call<&Mortal::value>()), 1);
  mortal.call<&Mortal::die>();
  const auto error = error_of<ActorDiedError>([&] { got(mortal.call<&Mortal::value>()); });
  expect_rule("4.actordiederror-1",
              [&] { return error.actor_id() == mortal.id() && !error.cause().empty(); });
}

// The page names ActorDiedError for an actor that is dead; a constructor that throws makes it one.
TEST(ContractErrors, ConstructorFailureIsActorDeath) {
  expect_rule("2.1.actor-1", [] {
    const auto bad = mobula::actor<Mortal>.remote(true);
    for (int i = 0; i < 2; ++i) {
      try {
        got(bad.call<&Mortal::value>());
        return false;
      } catch (const ActorDiedError& error) {
        if (std::string(error.what()).find("cannot be made") == std::string::npos) return false;
      }
    }
    return true;
  });
}

TEST(ContractErrors, TimeoutsNameTheTask) {
  const auto later = mobula::task<mobula::testing::runs_until_cancelled>.remote();
  const auto error =
      error_of<GetTimeoutError>([&] { (void)mobula::get(later, std::chrono::milliseconds(20)); });
  EXPECT_NE(std::string(error.what()).find("runs_until_cancelled"), std::string::npos)
      << error.what();
  mobula::cancel(later);
}

TEST(ContractErrors, ActorsAndGroupsNameTheResource) {
  const auto actor = mobula::actor<Mortal>.options({.num_gpus = 64}).remote();
  EXPECT_EQ(error_of<UnschedulableError>([&] { got(actor.call<&Mortal::value>()); }).resource(),
            "GPU");
  const auto group = mobula::placement_group({{{"CPU", 64}}});
  EXPECT_EQ(error_of<UnschedulableError>([&] { got(group.ready()); }).resource(), "CPU");
}

TEST(ContractErrors, LookupsAreNotFound) {
  EXPECT_THROW((void)mobula::get_actor<Mortal>("nobody"), NotFoundError);
  EXPECT_THROW((void)mobula::get_placement_group("nothing"), NotFoundError);
}

struct Written {
  int value = 0;
};
struct OtherType {
  std::string text;
};
TEST(ContractErrors, WrongTypesAreSerializationErrors) {
  const auto ref = mobula::put(Written{3});
  const ObjectRef<OtherType> wrong(ref.anchor());
  EXPECT_THROW((void)got(wrong), SerializationError);
}

}  // namespace
}  // namespace mobula::contract::errors
