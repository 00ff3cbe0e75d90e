// What a person would trip over in the admin's main part, as the page is shown now.
() => {
  const root = document.documentElement;
  const all = (selector) =>
    [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility());

  // Contrast by WCAG 2.2, 1.4.3: 4.5:1, of text against what is painted behind it.
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) =>
    rgb.slice(0, 3)
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (node) => {
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const hasText = (node) =>
    [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  const isNamed = (node) => node.labels?.length || node.ariaLabel || node.title;

  return {
    overflow: Math.max(0, root.scrollWidth - root.clientWidth),
    // The red of a link to delete is Django's own.
    faint: all("#content :not(.deletelink)")
      .filter((node) => hasText(node) && contrast(node) < 4.5)
      .map((node) => `${contrast(node).toFixed(2)} ${node.tagName}.${node.className} ${node.textContent.trim()}`),
    nameless: all("#content input, #content select, #content textarea")
      .filter((node) => !["submit", "button"].includes(node.type) && !isNamed(node))
      .map((node) => node.outerHTML),
  };
}
