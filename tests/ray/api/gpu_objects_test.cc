// Ray's python/ray/tests/gpu_objects/test_gpu_objects_gloo.py, on tensors in host memory. Ray's
// actors form a gloo group first; here a transport needs no group. Without a plugin, the tests use
// `automatic`, or `tcp` if bytes must move.
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::gpu_objects {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::make_gate;

constexpr int medium = 250'000;  // floats
const CallOptions direct{.tensor_transport = Transport::tcp};

Tensor ramp(int count) {
  Tensor tensor = Tensor::empty({count});
  auto elements = tensor.mutable_view<float>();
  std::iota(elements.begin(), elements.end(), 0.0f);
  return tensor;
}
double sum_of(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}
double ramp_sum(double count) { return count * (count - 1) / 2; }
Tensor doubled(const Tensor& tensor) {
  Tensor twice = tensor.clone();
  for (float& each : twice.mutable_view<float>()) each *= 2;
  return twice;
}

struct Mixed {
  std::vector<Tensor> tensors;
  std::string text;
};

class Worker {
 public:
  Tensor echo(Tensor tensor) { return tensor; }
  Tensor make(int count) { return ramp(count); }
  Tensor save(int count) { return saved_ = ramp(count); }
  Mixed mix(int count, const std::string& text) { return {{ramp(count), ramp(count + 1)}, text}; }
  Tensor twice(const Tensor& tensor) { return doubled(tensor); }
  double sum_twice(const Tensor& a, const Tensor& b) { return sum_of(a) + sum_of(b); }
  Mixed twice_mixed(const Mixed& mixed) {
    Mixed result{{}, mixed.text + mixed.text};
    for (const auto& each : mixed.tensors) result.tensors.push_back(doubled(each));
    return result;
  }
  double sum(const Tensor& tensor) { return sum_of(tensor); }
  Tensor fail() { throw std::runtime_error("test_app_error"); }
  bool is_saved(const Tensor& tensor) { return tensor.data() == saved_.data(); }
  double increment_saved() {
    mobula::wait_tensor_freed(saved_, std::chrono::seconds(20));
    for (float& each : saved_.mutable_view<float>()) each += 1;
    return sum_of(saved_);
  }
  bool is_freed_within(double seconds) {
    try {
      mobula::wait_tensor_freed(saved_, Duration(seconds));
      return true;
    } catch (const GetTimeoutError&) {
      return false;
    }
  }
  // One tensor in two values.
  std::tuple<Tensor, Tensor> save_twice(int count) {
    saved_ = ramp(count);
    return {saved_, saved_};
  }
  bool block(ActorHandle<Gate> gate) { return got(gate.call<&Gate::wait>()); }
  std::int64_t pid() { return ::getpid(); }
  double transfer(ActorHandle<Worker> maker, ActorHandle<Worker> user) {
    return got(
        user.call<&Worker::sum>(maker.method<&Worker::make>().options(direct).remote(medium)));
  }
  void crash() { std::_Exit(3); }

 private:
  Tensor saved_;
};

class test_gpu_objects_gloo : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sender = mobula::actor<Worker>.remote();
    receiver = mobula::actor<Worker>.remote();
  }
  static void TearDownTestSuite() { sender = receiver = {}; }
  static ObjectRef<Tensor> made(int count) {
    return sender.method<&Worker::make>().options(direct).remote(count);
  }
  static bool sender_is_free() { return got(sender.call<&Worker::is_freed_within>(0.05)); }

  inline static ActorHandle<Worker> sender, receiver;
};

TEST_F(test_gpu_objects_gloo, test_gc_gpu_object) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  EXPECT_FALSE(sender_is_free());
  ref = {};
  EXPECT_TRUE(becomes_true(sender_is_free));
}

TEST_F(test_gpu_objects_gloo, test_gc_del_ref_before_recv_finish) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  const auto sum = receiver.call<&Worker::sum>(ref);
  ref = {};
  EXPECT_EQ(got(sum), ramp_sum(medium));
  EXPECT_TRUE(becomes_true(sender_is_free));
}

TEST_F(test_gpu_objects_gloo, test_gc_intra_actor_gpu_object) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  EXPECT_EQ(got(sender.call<&Worker::sum>(ref)), ramp_sum(medium));
  EXPECT_EQ(got(sender.call<&Worker::sum>(ref)), ramp_sum(medium));
  ref = {};
  EXPECT_TRUE(becomes_true(sender_is_free));
}

TEST_F(test_gpu_objects_gloo, test_gc_pass_ref_to_same_and_different_actors) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  EXPECT_EQ(got(sender.call<&Worker::sum>(ref)), ramp_sum(medium));
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  ref = {};
  EXPECT_TRUE(becomes_true(sender_is_free));
}

TEST_F(test_gpu_objects_gloo, test_p2p) {
  for (const int count : {1, medium}) {
    EXPECT_EQ(sum_of(got(receiver.call<&Worker::twice>(made(count)))), 2 * ramp_sum(count))
        << count;
  }
}

// Ray rejects a transfer between actors without a group.
TEST_F(test_gpu_objects_gloo, test_p2p_errors_before_group_creation) {
  EXPECT_EQ(got(receiver.call<&Worker::sum>(made(medium))), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_p2p_blocking) {
  const auto gate = make_gate();
  const auto ref = made(medium);
  const auto blocked = sender.call<&Worker::block>(gate);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  gate.call<&Gate::open>();
  EXPECT_TRUE(got(blocked));
}

TEST_F(test_gpu_objects_gloo, test_p2p_with_cpu_data) {
  const auto ref = sender.method<&Worker::pid>().options(direct).remote();
  EXPECT_NE(got(ref), ::getpid());
}

TEST_F(test_gpu_objects_gloo, test_send_same_ref_to_same_actor_task_multiple_times) {
  const auto ref = made(medium);
  EXPECT_EQ(got(receiver.call<&Worker::sum_twice>(ref, ref)), 2 * ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_send_same_ref_to_same_actor_multiple_times) {
  const auto ref = made(medium);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_intra_gpu_tensor_transfer) {
  EXPECT_EQ(sum_of(got(sender.call<&Worker::twice>(made(1)))), 0);
  const auto kept = sender.method<&Worker::save>().options(direct).remote(medium);
  EXPECT_TRUE(got(sender.call<&Worker::is_saved>(kept))) << "the same memory, not a copy";
  const auto mixed = sender.method<&Worker::mix>().options(direct).remote(3, "ab");
  const auto result = got(sender.call<&Worker::twice_mixed>(mixed));
  EXPECT_EQ(sum_of(result.tensors.at(1)), 2 * ramp_sum(4));
  EXPECT_EQ(result.text, "abab");
}

TEST_F(test_gpu_objects_gloo, test_send_same_ref_multiple_times_intra_actor) {
  const auto ref = made(medium);
  EXPECT_EQ(got(sender.call<&Worker::sum_twice>(ref, ref)), 2 * ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_mix_cpu_gpu_data) {
  const auto mixed = sender.method<&Worker::mix>().options(direct).remote(medium, "cpu data");
  const auto result = got(receiver.call<&Worker::twice_mixed>(mixed));
  EXPECT_EQ(sum_of(result.tensors.at(0)), 2 * ramp_sum(medium));
  EXPECT_EQ(result.text, "cpu datacpu data");
}

TEST_F(test_gpu_objects_gloo, test_object_in_plasma) {
  const std::string large(1'000'000, '1');
  const auto mixed = sender.method<&Worker::mix>().options(direct).remote(1, large);
  EXPECT_EQ(got(receiver.call<&Worker::twice_mixed>(mixed)).text.size(), 2 * large.size());
}

TEST_F(test_gpu_objects_gloo, test_multiple_tensors) {
  const auto mixed = sender.method<&Worker::mix>().options(direct).remote(medium, "");
  const auto result = got(receiver.call<&Worker::twice_mixed>(mixed));
  EXPECT_EQ(sum_of(result.tensors.at(0)), 2 * ramp_sum(medium));
  EXPECT_EQ(sum_of(result.tensors.at(1)), 2 * ramp_sum(medium + 1));
}

TEST_F(test_gpu_objects_gloo, test_fetch_gpu_object_to_driver) {
  EXPECT_EQ(sum_of(got(made(medium))), ramp_sum(medium));
  const GetOptions by_store{.tensor_transport = Transport::object_store,
                            .timeout = mobula::testing::wait_timeout};
  EXPECT_EQ(sum_of(mobula::get(made(medium), by_store)), ramp_sum(medium));
  const auto mixed = got(sender.method<&Worker::mix>().options(direct).remote(3, "seven"));
  EXPECT_EQ(sum_of(mixed.tensors.at(0)), ramp_sum(3));
  EXPECT_EQ(mixed.text, "seven");
}

TEST_F(test_gpu_objects_gloo, test_dynamic_tensor_transport_via_options) {
  EXPECT_EQ(got(receiver.call<&Worker::sum>(sender.call<&Worker::make>(medium))), ramp_sum(medium));
  EXPECT_EQ(got(receiver.call<&Worker::sum>(made(medium))), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_app_error_inter_actor) {
  const auto failed = sender.method<&Worker::fail>().options(direct).remote();
  EXPECT_THROW(got(receiver.call<&Worker::twice>(failed)), std::runtime_error);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(made(1))), 0);
}

TEST_F(test_gpu_objects_gloo, test_app_error_intra_actor) {
  const auto failed = sender.method<&Worker::fail>().options(direct).remote();
  EXPECT_THROW(got(sender.call<&Worker::twice>(failed)), std::runtime_error);
  EXPECT_EQ(got(sender.call<&Worker::sum>(made(1))), 0);
}

TEST_F(test_gpu_objects_gloo, test_app_error_fetch_to_driver) {
  const auto failed = sender.method<&Worker::fail>().options(direct).remote();
  EXPECT_THROW(got(failed), std::runtime_error);
  EXPECT_EQ(sum_of(got(made(3))), ramp_sum(3));
}

TEST_F(test_gpu_objects_gloo, test_write_after_save) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  const auto written = sender.call<&Worker::increment_saved>();
  const auto received = receiver.call<&Worker::sum>(ref);
  EXPECT_TRUE(mobula::testing::is_pending(written)) << "the driver still holds a ref";
  ref = {};
  EXPECT_EQ(got(received), ramp_sum(medium)) << "the reader sees the tensor as it was";
  EXPECT_EQ(got(written), ramp_sum(medium) + medium);
}

TEST_F(test_gpu_objects_gloo, test_wait_tensor_freed) {
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  EXPECT_FALSE(got(sender.call<&Worker::is_freed_within>(0.1)));
  const auto freed = sender.call<&Worker::is_freed_within>(20.0);
  ref = {};
  EXPECT_TRUE(got(freed));
}

TEST_F(test_gpu_objects_gloo, test_wait_tensor_freed_double_tensor) {
  auto [first, second] =
      sender.method<&Worker::save_twice>().split().options(direct).remote(medium);
  EXPECT_FALSE(got(sender.call<&Worker::is_freed_within>(0.1)));
  first = {};
  EXPECT_FALSE(got(sender.call<&Worker::is_freed_within>(0.1))) << "the second value still has it";
  second = {};
  EXPECT_TRUE(becomes_true(sender_is_free));
}

// Ray logs a warning for this.
TEST_F(test_gpu_objects_gloo, test_send_back_and_dst_warning) {
  const auto ref = made(medium);
  const auto back = sender.method<&Worker::echo>().options(direct).remote(ref);
  const auto away = receiver.method<&Worker::echo>().options(direct).remote(ref);
  EXPECT_EQ(sum_of(got(back)), ramp_sum(medium));
  EXPECT_EQ(sum_of(got(away)), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_duplicate_objectref_transfer) {
  const auto ref = made(medium);
  const std::vector results{receiver.call<&Worker::twice>(ref), receiver.call<&Worker::twice>(ref)};
  for (const auto& each : got(results)) EXPECT_EQ(sum_of(each), 2 * ramp_sum(medium));
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_transfer_from_not_actor_creator) {
  const auto third = mobula::actor<Worker>.remote();
  EXPECT_EQ(got(third.call<&Worker::transfer>(sender, receiver)), ramp_sum(medium));
}

TEST_F(test_gpu_objects_gloo, test_send_actor_dies) {
  const auto victim = mobula::actor<Worker>.remote();
  const auto lost = victim.method<&Worker::make>().options(direct).remote(medium);
  EXPECT_FALSE(
      mobula::wait({lost}, {.timeout = mobula::testing::wait_timeout, .fetch_local = false})
          .ready.empty());
  victim.call<&Worker::crash>();
  EXPECT_THROW(got(victim.call<&Worker::pid>()), ActorDiedError);
  EXPECT_THROW(got(receiver.call<&Worker::sum>(lost)), Error);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(made(1))), 0) << "the reader still works";
}

TEST_F(test_gpu_objects_gloo, test_recv_actor_dies) {
  const auto victim = mobula::actor<Worker>.remote();
  got(victim.call<&Worker::pid>());
  auto ref = sender.method<&Worker::save>().options(direct).remote(medium);
  victim.call<&Worker::crash>();
  const auto read = victim.call<&Worker::sum>(ref);
  EXPECT_THROW(got(read), Error);
  EXPECT_EQ(got(receiver.call<&Worker::sum>(ref)), ramp_sum(medium));
  ref = {};
  EXPECT_TRUE(becomes_true(sender_is_free)) << "a dead reader holds nothing";
}

}  // namespace
}  // namespace mobula::ray_tests::gpu_objects
