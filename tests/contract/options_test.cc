// docs/api.md, section 2 (conventions) and 2.3: the members of options, their order and their
// defaults.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "contract/local_cluster.h"

// A member without an initializer is an error here.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

namespace mobula::contract::options {
namespace {

using mobula::testing::got;

// Addresses of the members, in the order given.
template <class T, class... Members>
bool in_order(Members T::*... members) {
  const T object{};
  const std::vector<const char*> addresses{reinterpret_cast<const char*>(&(object.*members))...};
  return std::is_sorted(addresses.begin(), addresses.end());
}

TEST(ContractOptions, HasAggregatesWithInitializers) {
  static_assert(std::is_aggregate_v<InitOptions> && std::is_aggregate_v<TaskOptions> &&
                std::is_aggregate_v<ActorOptions>);
  static_assert(std::is_aggregate_v<CallOptions> && std::is_aggregate_v<GetOptions> &&
                std::is_aggregate_v<PutOptions>);
  static_assert(std::is_aggregate_v<WaitOptions> && std::is_aggregate_v<CancelOptions> &&
                std::is_aggregate_v<KillOptions>);
  static_assert(std::is_aggregate_v<PlacementGroupOptions> && std::is_aggregate_v<Placement> &&
                std::is_aggregate_v<NodeAffinity>);
  static_assert(std::is_aggregate_v<CollectiveGroupOptions> && std::is_aggregate_v<ReduceOptions>);
  EXPECT_EQ(InitOptions{.address = "a:1"}.address, "a:1");
  EXPECT_EQ(TaskOptions{.name = "n"}.name, "n");
  EXPECT_EQ(ActorOptions{.name = "n"}.name, "n");
  EXPECT_EQ(CallOptions{.name = "n"}.name, "n");
  EXPECT_TRUE(GetOptions{.allow_fallback = true}.allow_fallback);
  EXPECT_TRUE(PutOptions{.allow_fallback = true}.allow_fallback);
  EXPECT_EQ(PlacementGroupOptions{.name = "n"}.name, "n");
  EXPECT_EQ(Node{.node_id = "n"}.node_id, "n");
  EXPECT_EQ(Transfer{.path = "tcp"}.path, "tcp");
}

// A discarded cluster ends at once: the compiler reports it. The attribute is read from the header,
// since no trait shows it.
TEST(ContractOptions, ReturnsANodiscardCluster) {
  std::ifstream header(MOBULA_SOURCE_DIR "/include/mobula/cluster.h");
  const std::string text(std::istreambuf_iterator<char>(header), {});
  EXPECT_NE(text.find("class [[nodiscard]] MOBULA_API Cluster"), std::string::npos);
}

TEST(ContractOptions, InitOptionsHaveTheirOrder) {
  using O = InitOptions;
  EXPECT_TRUE((in_order<O>(
      &O::address, &O::num_cpus, &O::num_gpus, &O::gpu_memory, &O::memory, &O::object_store_memory,
      &O::resources, &O::accelerator_type, &O::labels, &O::job_name, &O::name_space, &O::env,
      &O::log_level, &O::max_pending_bytes, &O::job_priority, &O::job_weight, &O::job_quota)));
  const O o;
  EXPECT_EQ(o.max_pending_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(o.job_priority, 0);
  EXPECT_EQ(o.job_weight, 1);
  EXPECT_TRUE(o.job_quota.empty() && !o.num_cpus && !o.num_gpus && !o.gpu_memory && !o.memory &&
              !o.object_store_memory);
}

TEST(ContractOptions, TaskOptionsHaveTheirOrder) {
  using O = TaskOptions;
  EXPECT_TRUE((in_order<O>(&O::name, &O::num_cpus, &O::num_gpus, &O::gpu_memory, &O::memory,
                           &O::resources, &O::accelerator_type, &O::label_selector, &O::scheduling,
                           &O::placement, &O::num_returns, &O::max_calls, &O::max_retries,
                           &O::retry_exceptions, &O::tensor_transport, &O::env, &O::allow_fallback,
                           &O::block_on_limit, &O::fail_if_infeasible, &O::priority,
                           &O::fallback_selectors, &O::tensor_policy)));
  const O o;
  EXPECT_EQ(o.num_cpus, 1);
  EXPECT_EQ(o.num_gpus, 0);
  EXPECT_EQ(o.gpu_memory, 0);
  EXPECT_EQ(o.memory, 0);
  EXPECT_EQ(o.scheduling, Scheduling(Default{}));
  EXPECT_FALSE(o.placement);
  EXPECT_EQ(o.num_returns, 1);
  EXPECT_EQ(o.max_calls, -1);
  EXPECT_EQ(o.max_retries, 3);
  EXPECT_TRUE(!o.retry_exceptions && !o.allow_fallback && o.block_on_limit &&
              !o.fail_if_infeasible);
  EXPECT_EQ(o.tensor_transport, Transport::object_store);
  EXPECT_EQ(o.priority, 0);
  EXPECT_EQ(o.tensor_policy, TensorPolicy::freeze);
}

TEST(ContractOptions, ActorOptionsHaveTheirOrder) {
  using O = ActorOptions;
  EXPECT_TRUE((in_order<O>(&O::name, &O::name_space, &O::lifetime, &O::get_if_exists, &O::num_cpus,
                           &O::num_gpus, &O::gpu_memory, &O::memory, &O::resources,
                           &O::accelerator_type, &O::label_selector, &O::scheduling, &O::placement,
                           &O::max_restarts, &O::max_task_retries, &O::max_concurrency,
                           &O::max_pending_calls, &O::exclusive, &O::env, &O::block_on_limit,
                           &O::fail_if_infeasible, &O::priority, &O::fallback_selectors,
                           &O::concurrency_groups, &O::allow_out_of_order_execution)));
  const O o;
  EXPECT_EQ(o.lifetime, Lifetime::counted);
  EXPECT_TRUE(!o.get_if_exists && !o.num_cpus && !o.exclusive && o.block_on_limit &&
              !o.fail_if_infeasible);
  EXPECT_EQ(o.max_restarts, 0);
  EXPECT_EQ(o.max_task_retries, 0);
  EXPECT_EQ(o.max_concurrency, 1);
  EXPECT_EQ(o.max_pending_calls, -1);
  EXPECT_EQ(o.priority, 0);
}

TEST(ContractOptions, SmallOptionsHaveTheirOrder) {
  using C = CallOptions;
  EXPECT_TRUE((in_order<C>(&C::name, &C::tensor_transport, &C::max_task_retries, &C::num_returns,
                           &C::allow_fallback, &C::block_on_limit, &C::tensor_policy,
                           &C::concurrency_group, &C::retry_exceptions)));
  EXPECT_TRUE(C{}.tensor_transport == Transport::object_store && C{}.num_returns == 1 &&
              !C{}.allow_fallback);
  EXPECT_TRUE(C{}.block_on_limit && C{}.tensor_policy == TensorPolicy::freeze &&
              !C{}.max_task_retries);
  using G = GetOptions;
  EXPECT_TRUE((in_order<G>(&G::tensor_transport, &G::device, &G::allow_fallback, &G::timeout)));
  EXPECT_TRUE(G{}.tensor_transport == Transport::automatic && !G{}.device && !G{}.allow_fallback &&
              !G{}.timeout);
  using P = PutOptions;
  EXPECT_TRUE((in_order<P>(&P::tensor_transport, &P::allow_fallback, &P::tensor_policy)));
  EXPECT_TRUE(P{}.tensor_transport == Transport::object_store &&
              P{}.tensor_policy == TensorPolicy::freeze);
  using W = WaitOptions;
  EXPECT_TRUE((in_order<W>(&W::num_returns, &W::timeout, &W::fetch_local)));
  EXPECT_TRUE(W{}.num_returns == 1 && !W{}.timeout && W{}.fetch_local);
  EXPECT_TRUE((in_order<CancelOptions>(&CancelOptions::force, &CancelOptions::recursive)));
  EXPECT_TRUE(!CancelOptions{}.force && CancelOptions{}.recursive && KillOptions{}.no_restart);
}

TEST(ContractOptions, StrategiesAndPoliciesHaveTheirNames) {
  static_assert(std::is_same_v<Scheduling, std::variant<Default, Spread, NodeAffinity>>);
  EXPECT_TRUE((in_order<NodeAffinity>(&NodeAffinity::node_id, &NodeAffinity::soft)));
  EXPECT_FALSE(NodeAffinity{}.soft);
  EXPECT_TRUE((in_order<Placement>(&Placement::group, &Placement::bundle_index,
                                   &Placement::capture_child_tasks)));
  EXPECT_TRUE(Placement{}.bundle_index == -1 && !Placement{}.capture_child_tasks);
  const std::vector policies{TensorPolicy::freeze, TensorPolicy::snapshot, TensorPolicy::alias};
  EXPECT_TRUE(std::is_sorted(policies.begin(), policies.end()));
  using G = PlacementGroupOptions;
  EXPECT_TRUE((in_order<G>(&G::name, &G::lifetime, &G::bundle_label_selector, &G::priority)));
  EXPECT_EQ(G{}.priority, 0);
  static_assert(Strategy::pack != Strategy::spread &&
                Strategy::strict_pack != Strategy::strict_spread);
}

TEST(ContractOptions, TransfersAndListsHaveTheirOrder) {
  using T = Transfer;
  EXPECT_TRUE(
      (in_order<T>(&T::path, &T::bytes, &T::queue_time, &T::wire_time, &T::refusals, &T::encrypted,
                   &T::peer, &T::in_place, &T::group, &T::operation, &T::sent_bytes)));
  using N = Node;
  EXPECT_TRUE((in_order<N>(&N::node_id, &N::alive, &N::address, &N::resources, &N::labels)));
  using G = PlacementGroupInfo;
  EXPECT_TRUE((in_order<G>(&G::id, &G::name, &G::name_space, &G::state, &G::strategy, &G::detached,
                           &G::bundles, &G::nodes, &G::reason, &G::priority)));
  using C = CollectiveGroupOptions;
  EXPECT_TRUE((in_order<C>(&C::timeout, &C::create_timeout, &C::device)));
  EXPECT_TRUE(C{}.timeout == std::chrono::minutes(5) &&
              C{}.create_timeout == std::chrono::seconds(60) && C{}.device == 0);
  EXPECT_TRUE((in_order<ReduceOptions>(&ReduceOptions::op, &ReduceOptions::timeout)));
  EXPECT_TRUE((in_order<RootOptions>(&RootOptions::root, &RootOptions::timeout)));
  using R = RootReduceOptions;
  EXPECT_TRUE((in_order<R>(&R::root, &R::op, &R::timeout)));
  EXPECT_TRUE(!CollectiveOptions{}.timeout && ReduceOptions{}.op == ReduceOp::sum);
}

TEST(ContractOptions, TransportsHaveTheirNames) {
  const std::vector all{Transport::automatic, Transport::shm,         Transport::tcp,
                        Transport::gloo,      Transport::ucx,         Transport::cuda_ipc,
                        Transport::nccl,      Transport::object_store};
  EXPECT_EQ(std::set<Transport>(all.begin(), all.end()).size(), all.size());
  const std::vector ops{ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                        ReduceOp::average};
  EXPECT_EQ(std::set<ReduceOp>(ops.begin(), ops.end()).size(), ops.size());
}

int one() { return 1; }

TEST(ContractOptions, AmountsComeFromAnyNumber) {
  int whole = 1;
  long long_number = 1;
  float half = 0.5f;
  const unsigned char tiny = 1;
  EXPECT_EQ(TaskOptions{.num_gpus = whole}.num_gpus, 1);
  EXPECT_EQ(TaskOptions{.num_cpus = long_number}.num_cpus, 1);
  EXPECT_EQ(TaskOptions{.num_cpus = half}.num_cpus, 0.5);
  EXPECT_EQ(TaskOptions{.num_cpus = tiny}.num_cpus, 1);
  static_assert(std::is_same_v<decltype(TaskOptions{}.gpu_memory), std::int64_t>);
  static_assert(std::is_same_v<decltype(TaskOptions{}.memory), std::int64_t>);
}

TEST(ContractOptions, RejectsNegativeBytes) {
  EXPECT_THROW((void)mobula::task<one>.options({.memory = -1}).remote(), InvalidRequestError);
  EXPECT_THROW((void)mobula::task<one>.options({.gpu_memory = -1}).remote(), InvalidRequestError);
  EXPECT_THROW((void)mobula::init({.max_pending_bytes = -1}), Error);
}

TEST(ContractOptions, RejectsNegativeAndNanTimeouts) {
  const auto ref = mobula::put(1);
  const Duration nan(std::numeric_limits<double>::quiet_NaN());
  for (const Duration bad : {Duration(-1), nan}) {
    EXPECT_THROW((void)mobula::get(ref, bad), InvalidRequestError);
    EXPECT_THROW((void)mobula::try_get(ref, bad), InvalidRequestError);
    EXPECT_THROW((void)mobula::wait({ref}, {.timeout = bad}), InvalidRequestError);
    EXPECT_THROW((void)mobula::get_view(mobula::put(std::vector<int>{1}), bad),
                 InvalidRequestError);
    const auto group = mobula::placement_group({{{"CPU", 1}}});
    EXPECT_THROW((void)group.wait(bad), InvalidRequestError);
    mobula::remove_placement_group(group);
    EXPECT_THROW(mobula::wait_tensor_freed(Tensor::zeros({1}), bad), InvalidRequestError);
  }
  EXPECT_EQ(mobula::get(ref, std::chrono::milliseconds(100)), 1);
  EXPECT_EQ(mobula::get(ref, std::chrono::hours(1)), 1);
}

}  // namespace
}  // namespace mobula::contract::options
