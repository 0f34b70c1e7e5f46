// Small values that outlive the page: settings, the theme, which panels are open. A browser may refuse to keep anything;
// then they last as long as the page.

const kPrefix = "hearth.";
const keptInMemory = new Map();

export function kept(name, otherwise) {
  try {
    const text = localStorage.getItem(kPrefix + name) ?? keptInMemory.get(name);
    return text === null || text === undefined ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  const text = JSON.stringify(value);
  keptInMemory.set(name, text);
  try {
    localStorage.setItem(kPrefix + name, text);
  } catch {
    // It stays in memory.
  }
}
