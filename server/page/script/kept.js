// Stores small values in the browser: settings, the theme, which panels are open. If the browser does not
// allow this, the values stay in memory until the page is closed.

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
    // The value stays in keptInMemory.
  }
}
