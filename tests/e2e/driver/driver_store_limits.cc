// Values that together exceed the node's store, and calls that wait for memory.
#include <chrono>
#include <fstream>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;
using StoreBlock = std::vector<std::uint64_t>;

constexpr std::size_t words_per_block = (std::size_t{4} << 20) / sizeof(std::uint64_t);

StoreBlock block_of(std::uint64_t number) { return StoreBlock(words_per_block, number); }

// COUNT blocks, put by the driver and made by tasks. Waits for all and reads all.
int reads_more_than_fits(const Words& words) {
  Report report;
  const auto count = static_cast<std::size_t>(std::stoul(words.at(0)));
  std::vector<mobula::ObjectRef<StoreBlock>> refs;
  for (std::size_t i = 0; i < count; ++i) {
    refs.push_back(i % 2 == 0 ? mobula::put(block_of(i)) : mobula::task<block_of>.remote(i));
  }
  const auto [ready, pending] =
      mobula::wait(refs, {.num_returns = static_cast<int>(count), .timeout = seconds(25)});
  report.equal("ready", ready.size(), count);
  const auto values = mobula::get(refs, seconds(25));
  report.equal("values", values.size(), count);
  for (std::size_t i = 0; i < values.size(); ++i) report.equal("value", values[i].back(), i);
  return report.exit_code();
}

int until_released(const std::string& pipe, const StoreBlock& block) {
  hold(pipe);
  return static_cast<int>(block.front());
}

// PIPE: large arguments up to max_pending_bytes (8 MiB), and one more.
int counts_large_arguments(const Words& words) {
  Report report;
  std::vector<mobula::ObjectRef<int>> refs;
  const auto submit = mobula::task<until_released>.options({.block_on_limit = false});
  int accepted = 0;
  try {
    for (; accepted < 20; ++accepted) refs.push_back(submit.remote(words.at(0), block_of(1)));
    report.fail("80 MiB are pending");
  } catch (const mobula::PendingLimitError& error) {
    report.equal("calls with 4 MiB each", accepted, 1);
    report.holds("the message has the limit",
                 std::string(error.what()).find("8388608") != std::string::npos);
  }
  tell("refused");
  // Blocks until the test has released the first call.
  refs.push_back(mobula::task<until_released>.remote(words.at(0), block_of(1)));
  tell("accepted");
  for (const auto& each : refs) report.equal("value", mobula::get(each, seconds(30)), 1);
  return report.exit_code();
}

// Views pin the whole store. The next view reports why it does not return.
int views_fill_store(const Words&) {
  Report report;
  std::vector<mobula::View<StoreBlock>> views;
  std::vector<mobula::ObjectRef<StoreBlock>> refs;
  for (std::uint64_t i = 0; i < 8; ++i) refs.push_back(mobula::put(block_of(i)));
  try {
    for (const auto& each : refs) views.push_back(mobula::get_view(each, mobula::Duration(3.4)));
    report.fail("32 MiB are mapped in a store of 24 MiB");
  } catch (const mobula::GetTimeoutError& error) {
    const std::string text = error.what();
    report.holds(("the reason is memory: " + text).c_str(),
                 text.find("waits for memory") != std::string::npos);
  }
  views.clear();
  report.equal("after the views", mobula::get_view(refs.back(), seconds(30))[0], std::uint64_t{7});
  return report.exit_code();
}

int first_of(const StoreBlock& block) { return static_cast<int>(block.front()); }

// Writes the outcome of a call that waits for memory to the file.
template <class F>
int outcome(const std::string& file, const F& blocked) {
  std::string text = "finished";
  try {
    blocked();
  } catch (const mobula::TaskCancelledError&) {
    text = "cancelled";
  } catch (const std::exception& error) {
    text = error.what();
  }
  std::ofstream(file) << text << std::endl;
  return 1;
}

int puts_block(const std::string& file) {
  return outcome(file, [] { (void)mobula::put(block_of(9)); });
}

int submits_block(const std::string& file) {
  return outcome(file, [] { (void)mobula::task<first_of>.remote(block_of(9)); });
}

// FILE: tasks wait for memory that views of the driver pin, and are cancelled.
int cancels_writers(const Words& words) {
  Report report;
  std::vector<mobula::View<StoreBlock>> views;
  for (std::uint64_t i = 0; i < 5; ++i)
    views.push_back(mobula::get_view(mobula::put(block_of(i)), seconds(30)));
  const auto ends = [&](const char* what, const mobula::ObjectRef<int>& blocked) {
    (void)mobula::wait(std::vector{blocked},
                       {.timeout = mobula::Duration(0.5), .fetch_local = false});
    const auto cancelled_at = std::chrono::steady_clock::now();
    mobula::cancel(blocked);
    throws<mobula::TaskCancelledError>(report, what,
                                       [&] { (void)mobula::get(blocked, seconds(20)); });
    const auto took = std::chrono::steady_clock::now() - cancelled_at;
    std::ifstream file(words.at(0));
    std::string text;
    std::getline(file, text);
    report.equal(what, text, "cancelled");
    tell(std::string(what) + " ended after " +
         std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()) +
         " ms");
  };
  ends("put", mobula::task<puts_block>.remote(words.at(0)));
  ends("remote", mobula::task<submits_block>.remote(words.at(0)));
  views.clear();
  report.equal("after the views",
               mobula::get(mobula::task<puts_block>.remote(words.at(0)), seconds(30)), 1);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> store_limit_scenarios() {
  return {{"cancels_writers", &cancels_writers},
          {"reads_more_than_fits", &reads_more_than_fits},
          {"counts_large_arguments", &counts_large_arguments},
          {"views_fill_store", &views_fill_store}};
}

}  // namespace mobula::e2e
