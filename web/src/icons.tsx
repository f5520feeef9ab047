/** Drawn here: fonts differ in which symbols they have. */
function Icon({ path }: { path: string }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={path} />
    </svg>
  )
}

export const PencilIcon = () => (
  <Icon path="M2.5 13.5l.6-3L10.8 2.8l2.4 2.4-7.7 7.7zM9.5 4.1l2.4 2.4" />
)
export const BinIcon = () => (
  <Icon path="M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v4.5M9.3 6.5v4.5" />
)
export const CloseIcon = () => <Icon path="M3.5 3.5l9 9M12.5 3.5l-9 9" />
export const MenuIcon = () => <Icon path="M2.5 4h11M2.5 8h11M2.5 12h11" />
