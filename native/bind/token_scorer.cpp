// A model that scores and labels tokens.
#include "base/numbers.h"
#include "bind/labels.h"
#include "bind/python.h"
#include "bind/reading.h"
#include "bind/stl.h"
#include "features/token_scorer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>

namespace nb = nanobind;

namespace trellis::bind {

using namespace features;

namespace {

// A model that scores tokens. Each call has a scorer for itself, which remembers words; as many are made as calls run at
// the same time.
class TokenScorer {
 public:
  template <typename R>
  TokenScorer(const AttributeIndex& attributes, const Pairs& pairs, const R* weights, const Folding& folding) {
    if (!attributes.templates() || int64_t(attributes.keys().count) != pairs.attributes)
      throw nb::value_error("a scorer of tokens takes the attributes of templates, and weights for each");
    nb::gil_scoped_release release;
    make_ = [weights = std::make_shared<const TemplateWeights<R>>(attributes, pairs, weights),
             folding = folding.empty() ? nullptr : std::make_shared<const Folding>(folding)] {
      return std::make_unique<ScorerIn<R>>(weights, folding);
    };
  }

  // (emissions, offsets)
  nb::tuple score(const nb::list& columns, const std::vector<std::string>& names) {
    const Borrowed own(*this);
    const std::vector<int64_t> offsets = read(*own.scorer, columns, names);
    return scored(*own.scorer, offsets);
  }
  // The best labels of each sentence, as lists, or None if there is a problem, which inference will name. The lock is
  // given away once: to get it back may take longer than the work that is done without it.
  nb::object best(const nb::list& columns, const std::vector<std::string>& names, const Labeller& labeller) {
    const Borrowed own(*this);
    Scorer& scorer = *own.scorer;
    if (scorer.labels() != labeller.labels()) throw nb::value_error("weights of other labels than the chain has");
    std::vector<int64_t> offsets = read(scorer, columns, names);
    return labeller.best(std::move(offsets), per_token, [&](const std::vector<int64_t>& offsets, double* emissions) {
      scorer.number();
      scorer.score(offsets, emissions);
    });
  }
  // What is remembered, to measure and to test without it.
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    scorers_ -= int(idle_.size());
    idle_.clear();
  }
  int64_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t sum = 0;
    for (const auto& scorer : idle_) sum += scorer->bytes();
    return sum;
  }

 private:
  // A scorer for one call, in order again after it even if it ends with an error.
  struct Borrowed {
    TokenScorer& from;
    std::unique_ptr<Scorer> scorer;

    explicit Borrowed(TokenScorer& from) : from(from), scorer(from.take()) {}
    ~Borrowed() { from.give_back(std::move(scorer)); }  // which throws nothing
  };

  static constexpr int64_t per_token = 256;  // operations, for words that are known

  static std::vector<int64_t> read(Scorer& scorer, const nb::list& columns, const std::vector<std::string>& names) {
    std::vector<int64_t> offsets;
    for (size_t c = 0; c < columns.size() && c < scorer.buffers().size(); ++c)
      copy_column(columns[c], names[c].c_str(), offsets, scorer.buffers()[c]);
    return offsets;
  }
  static nb::tuple scored(Scorer& scorer, const std::vector<int64_t>& offsets) {
    const size_t N = size_t(offsets.back()), L = size_t(scorer.labels());
    auto* emissions = new Block<double>(int64_t(N * L));
    nb::capsule owner(emissions, [](void* p) noexcept { delete static_cast<Block<double>*>(p); });
    without_lock(int64_t(N) * per_token, [&] {
      scorer.number();
      scorer.score(offsets, *emissions);
    });
    nb::ndarray<nb::numpy, double> array(static_cast<double*>(*emissions), {N, L}, owner);
    return nb::make_tuple(array, copy_of(offsets.data(), offsets.size()));
  }
  std::unique_ptr<Scorer> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scorer> scorer = std::move(idle_.back());
        idle_.pop_back();
        return scorer;
      }
      idle_.reserve(size_t(scorers_) + 1);
      ++scorers_;
    }
    try {
      return make_();
    } catch (...) {
      --scorers_;
      throw;
    }
  }
  void give_back(std::unique_ptr<Scorer> scorer) noexcept {
    const bool usable = scorer->finish(Scorer::most_bytes / std::max(1, scorers_.load()));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (usable) {
      idle_.push_back(std::move(scorer));  // for which there is room
    } else {
      --scorers_;
    }
  }

  std::function<std::unique_ptr<Scorer>()> make_;
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<Scorer>> idle_;
  std::atomic<int> scorers_{0};
};

template <typename R>
void make_scorer(TokenScorer* self, const AttributeIndex& attributes, const Flat<const int64_t>& ends,
                 const Flat<const uint16_t>& labels, const Flat<const R>& weights, int64_t L, const Folding& folding) {
  const Pairs pairs{ends.data(), labels.data(), int64_t(ends.size()), L};
  new (self) TokenScorer(attributes, pairs, weights.data(), folding);
}

template <typename R>
void bind_init(nb::class_<TokenScorer>& scorer) {
  scorer.def("__init__", &make_scorer<R>, nb::arg(), unconverted(), unconverted(), unconverted(), nb::arg(), nb::arg());
}

}  // namespace

void bind_token_scorer(nb::module_& m) {
  nb::class_<TokenScorer> scorer(m, "TokenScorer");
  bind_init<float>(scorer);
  bind_init<double>(scorer);
  scorer
      .def("score", &TokenScorer::score)
      .def("best", &TokenScorer::best)
      .def("forget", &TokenScorer::forget)
      .def_prop_ro("bytes", &TokenScorer::bytes)
      .def_prop_ro_static("most_bytes", [](nb::handle) { return Scorer::most_bytes; });
}

}  // namespace trellis::bind
