// What only C++ can ask of native code: memory that runs out, and sizes that no test has the memory for. A program that
// ends with 0 if all is well; `make sanitize` builds and runs it.
#include "features/objective.h"
#include "features/dataset.h"
#include "features/token_scorer.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

thread_local bool no_memory = false;
int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "failed: %s\n", what);
}

template <typename Error, typename F>
void expect_throw(F f, const char* what) {
  try {
    f();
  } catch (const Error&) {
    return;
  }
  expect(false, what);
}

}  // namespace

void* operator new(size_t size) {
  void* found = no_memory ? nullptr : std::malloc(size ? size : 1);
  if (!found) throw std::bad_alloc();
  return found;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace trellis::features {
namespace {

const std::vector<std::vector<Piece>> kTemplates{{{"U:", Function::value, 0, 0, 0}}, {{"V:", Function::value, 0, -1, 0}}};

// A model of one feature, U:a, with a weight for each of two labels.
struct Model {
  AttributeIndex attributes;
  std::vector<int64_t> ends{2};
  std::vector<uint16_t> labels{0, 1};
  std::vector<double> weights{1.5, -2.0};

  Model() {
    Columns columns(1);
    columns[0].add("a");
    compile_templates(std::make_shared<TemplateSet>(kTemplates), columns, {0, 1}, attributes, true);
    ends.resize(attributes.keys().count, 2);  // V:_B-1 has none
  }
  Pairs pairs() const { return {ends.data(), labels.data(), int64_t(ends.size()), 2}; }
  std::shared_ptr<const TemplateWeights<double>> values() const {
    return std::make_shared<TemplateWeights<double>>(attributes, pairs(), weights.data());
  }
};

// Emissions of the sentences "a", "b a" and so on.
void score(Scorer& scorer, int64_t sentences, std::vector<double>& emissions) {
  std::vector<int64_t> offsets{0};
  for (int64_t b = 0; b < sentences; ++b) {
    scorer.buffers()[0].add(b % 2 ? "word " + std::to_string(b) : "a");
    offsets.push_back(b + 1);
  }
  emissions.assign(size_t(2 * sentences), 0.0);
  scorer.number();
  scorer.score(offsets, emissions.data());
}

// A scorer is given back by a destructor: that may not need memory, however much the scorer has to forget.
void a_scorer_is_finished_without_memory() {
  const Model model;
  ScorerIn<double> scorer(model.values(), nullptr);
  std::vector<double> emissions;
  score(scorer, 1000, emissions);
  no_memory = true;
  const bool usable = scorer.finish(0);
  no_memory = false;
  expect(!usable, "a scorer that is too large is not used again");
}

// Memory may run out anywhere on the way: the scorer is then not used again.
void a_scorer_without_memory_is_not_used_again() {
  const Model model;
  ScorerIn<double> scorer(model.values(), nullptr);
  std::vector<double> emissions(2);
  scorer.buffers()[0].add("a token that is longer than what fits");
  no_memory = true;
  expect_throw<std::bad_alloc>([&] { scorer.number(), scorer.score({0, 1}, emissions.data()); }, "no memory is an error");
  no_memory = false;
  expect(!scorer.finish(1 << 30), "a scorer that was left by an error is not used again");
}

// A new scorer takes memory for what it has seen, not for all that it may ever see.
void a_new_scorer_is_small() {
  const Model model;
  ScorerIn<double> scorer(model.values(), nullptr);
  std::vector<double> emissions;
  score(scorer, 10, emissions);
  expect(emissions[0] == 1.5 && emissions[1] == -2.0, "the scores are the weights");
  expect(scorer.reserved_bytes() < 1 << 20, "a new scorer takes less than a megabyte");
}

Dataset dataset(int64_t sentences) {
  Dataset data;
  for (int64_t b = 0; b < sentences; ++b) {
    data.offsets.push_back(b + 1);
    data.attributes.push_back(0);
    data.bundle_ends.push_back(b + 1);
  }
  return data;
}

// More pairs than 32 bits can number are refused before anything is done with them.
void sizes_beyond_32_bits_are_refused() {
  const std::vector<int64_t> ends{int64_t(3) << 30};
  const uint16_t label = 0;
  expect_throw<std::length_error>([&] { WeightTable<double>(Pairs{ends.data(), &label, 1, 2}); }, "weights are counted");
  expect_throw<std::length_error>([&] { make_plan(dataset(2), Pairs{ends.data(), &label, 1, 2}); }, "pairs are counted");
  const Model model;
  expect_throw<std::length_error>([&] { TemplateWeights<double>(model.attributes, {ends.data(), &label, 1, 2}, nullptr); },
                                  "values are counted");
  Dataset many = dataset(2);
  many.offsets.back() = int64_t(3) << 30;
  expect_throw<std::length_error>([&] { make_plan(many, {nullptr, nullptr, 0, 2}); }, "tokens are counted");
}

// Bytes that are too short for the plan that they say they are, or that say what no plan says.
void damaged_plans_are_refused() {
  const Model model;
  const FlatPlan flat = make_plan(dataset(3), model.pairs());
  const PlanView plan = read_plan(flat.bytes, flat.size);
  expect(plan.tokens() == 3, "a plan is read back");
  for (int64_t size = 0; size < flat.size; size += 8)
    expect_throw<std::invalid_argument>([&] { read_plan(flat.bytes, size); }, "a shorter plan is refused");
  expect_throw<std::invalid_argument>([&] { read_plan(flat.bytes + 1, flat.size - 1); }, "a plan must be aligned");
  for (int64_t number = 3; number < 37; ++number) {
    for (const int64_t count : {int64_t(-1), int64_t(1) << 40, int64_t(1) << 62, std::numeric_limits<int64_t>::max()}) {
      int64_t& place = reinterpret_cast<int64_t*>(static_cast<char*>(flat.bytes))[number];
      const int64_t before = place;
      place = count;
      expect_throw<std::invalid_argument>([&] { read_plan(flat.bytes, flat.size); }, "a wrong size is refused");
      place = before;
    }
  }
}

std::unique_ptr<Objective> objective(const std::vector<int64_t>& tags) {
  auto data = std::make_shared<Dataset>(dataset(int64_t(tags.size())));
  auto made = std::make_unique<Objective>(data, 1, 2, Supervision{tags.data(), nullptr, nullptr, nullptr}, false);
  made->set_states({{2}, {0, 1}});
  return made;
}

// An evaluation that fails leaves the objective as it was, without what the call pointed to.
void an_objective_survives_an_evaluation_without_memory() {
  const std::vector<int64_t> tags(50, 1), others(20, 0);
  const auto own = objective(tags);
  const std::vector<double> weights{0.5, -0.25};
  std::vector<double> gradient(2), again(2);
  double loss = 0, loss_again = 0;
  own->evaluate(weights.data(), gradient.data(), &loss);
  const FlatPlan flat = own->plan_of(dataset(20));
  {
    const CorpusPart part{read_plan(flat.bytes, flat.size), {others.data(), nullptr, nullptr, nullptr}, nullptr};
    std::vector<double> spare(2);
    no_memory = true;
    expect_throw<std::bad_alloc>([&] { own->evaluate_part(part, weights.data(), spare.data(), &loss_again); },
                                 "no memory is an error");
    no_memory = false;
  }
  expect(own->supervision().tags == tags.data(), "the objective has its own labels again");
  own->evaluate(weights.data(), again.data(), &loss_again);
  expect(loss == loss_again && gradient == again, "the objective has its own loss again");
}

void threads_take_turns_on_one_objective() {
  const std::vector<int64_t> tags(3000, 1);
  const auto own = objective(tags);
  const std::vector<double> weights{0.5, -0.25};
  std::vector<double> gradient(2);
  double loss = 0;
  own->evaluate(weights.data(), gradient.data(), &loss);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 50; ++i) {
        std::vector<double> found(2);
        double sum = 0;
        own->evaluate(weights.data(), found.data(), &sum);
        wrong[size_t(k)] += sum != loss || found != gradient;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) expect(count == 0, "threads on one objective get what one gets");
}

}  // namespace
}  // namespace trellis::features

int main() {
  using namespace trellis::features;
  a_scorer_is_finished_without_memory();
  a_scorer_without_memory_is_not_used_again();
  a_new_scorer_is_small();
  sizes_beyond_32_bits_are_refused();
  damaged_plans_are_refused();
  an_objective_survives_an_evaluation_without_memory();
  threads_take_turns_on_one_objective();
  std::printf("%d checks of native code failed\n", failures);
  return failures ? 1 : 0;
}
