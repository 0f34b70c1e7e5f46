// Menus that pop up: which button has the focus, and where a menu is.

const kGap = 4;  // pixels between a menu and its opener, and between a menu and the window's edge

/** Lets the keys Up and Down move the focus between the menu's buttons. */
export function moveByArrows(menu) {
  menu.addEventListener("keydown", (event) => {
    if (!["ArrowDown", "ArrowUp"].includes(event.key)) return;
    event.preventDefault();
    const all = [...menu.querySelectorAll("button")];
    const next = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    all[(next + all.length) % all.length].focus();
  });
}

/** Opens a menu below its opener, or above it if the window ends there. */
export function openMenu(menu, opener) {
  menu.showPopover();
  const from = opener.getBoundingClientRect(), size = menu.getBoundingClientRect();
  const below = from.bottom + kGap, fits = below + size.height + kGap <= innerHeight;
  menu.style.top = `${fits ? below : Math.max(kGap, from.top - kGap - size.height)}px`;
  menu.style.left = `${Math.max(kGap, Math.min(from.left, innerWidth - size.width - kGap))}px`;
  menu.querySelector("button").focus();
}
